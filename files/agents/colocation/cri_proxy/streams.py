# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A stream that passes through us, and what somebody who is interested in it is told."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from colocation.cri_proxy.hpack import Headers
from colocation.cri_proxy.windows import Window


class Interest(Protocol):
    """In one call. Its end is told once, by `answered` or `lost`."""

    holds: bool

    def requested(self, body: bytes) -> bytes:
        """The whole request has come: what the server gets in its place, where it is held."""

    def let_go(self, why: str) -> None:
        """The request goes on and will not be shown."""

    def answered(self, trailers: Headers, body: bytes | None) -> None:
        """The server ended the call; no body where it was too large to keep."""

    def lost(self, why: str, certain: bool) -> None:
        """No answer will come. `certain`: the server never had the request."""


@dataclass(slots=True)
class Stream:
    """As far as the server is to see it."""

    number: int
    window: Window
    interest: Interest | None = None
    holding: bool = False  # the request is kept from the server
    reading: bool = False  # it is read in passing
    waited: bool = False  # it has been held since before the last tick
    body: list[bytes] = field(default_factory=list)  # of a request that is held or read
    size: int = 0  # of the body
    paid: int = 0  # of the client's windows, for what is held and was not given back
    queue: deque[memoryview] = field(default_factory=deque)  # for the server, as its windows allow
    queue_ends: bool = False  # with the last of it the request ends
    answer: list[bytes] | None = field(default_factory=list)
    answer_size: int = 0
    request_done: bool = False
    answer_done: bool = False
