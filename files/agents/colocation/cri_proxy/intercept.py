# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which calls of the CRI are of interest, and how the policy comes to know of them. No other file names a call.

CreateContainer and UpdateContainerResources are held and edited; of five more the request and the end of the answer
are read in passing. Everything else passes, known or not. Whatever goes wrong here lets the kubelet's own bytes go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Generic, TypeVar
from urllib.parse import unquote

from colocation.common.metrics import Registry
from colocation.cri_proxy import messages
from colocation.cri_proxy.calls import (
    ContainerCreated,
    ContainerRemoved,
    ContainerResized,
    ContainerStopped,
    Creation,
    CreationFailed,
    Edit,
    Event,
    Policy,
    Resize,
    ResizeFailed,
    SandboxCreated,
    SandboxRemoved,
    SandboxStopped,
)
from colocation.cri_proxy.hpack import Headers
from colocation.cri_proxy.protocol import RUNTIME
from colocation.cri_proxy.streams import Interest
from colocation.cri_proxy.trouble import Trouble

T = TypeVar("T")
_OK = b"0"
_UNSURE = (None, b"1", b"4", b"14")  # no status, cancelled, deadline exceeded, unavailable: it may be done all the same
_BOUNDS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05)


class Intercept:
    """Opens an interest for each call of the table, while there is a policy."""

    def __init__(self, registry: Registry, trouble: Trouble, policy: Policy | None = None) -> None:
        self.policy = policy
        self.trouble = trouble
        self.keys = count(1)
        self.requests = registry.counter(
            "colocation_cri_requests_total", "Requests that were held, by what became of them.", ("call", "result")
        )
        self.seconds = registry.histogram(
            "colocation_cri_decision_seconds", "How long a held request took to be read, decided and edited.", _BOUNDS
        )

    def interested(self, headers: Headers) -> Interest | None:
        """In a new stream with these headers."""
        policy = self.policy
        if policy is None:
            return None
        path = b""
        for name, value in headers:
            if name == b":path":
                path = value
                break
        if path in _SEEN:
            return _Seen(self, policy, _SEEN[path])
        if path not in _HELD:
            return None
        call = _HELD[path](self, policy)
        if _is_special(headers):
            call.let_go("more than its body would have to change")
            return None
        return call

    def tell(self, policy: Policy, event: Event) -> None:
        try:
            policy.observe(event)
        except Exception as problem:
            self.trouble.note("policy", problem)


def _is_special(headers: Headers) -> bool:
    """Whether something beside the body would have to change with it."""
    return any(
        name == b"content-length" or (name == b"grpc-encoding" and value != b"identity") for name, value in headers
    )


class _Held(Generic[T]):
    """A call whose request is held."""

    holds = True
    name = ""

    def __init__(self, intercept: Intercept, policy: Policy) -> None:
        self._intercept = intercept
        self._policy = policy
        self._asked: T | None = None

    def requested(self, body: bytes) -> bytes:
        began = time.perf_counter()
        intercept = self._intercept
        part = "message"
        try:
            message = messages.unwrapped(body)
            asked = self._read(next(intercept.keys), message)
            part, self._asked = "policy", asked
            edit = self._decide(asked)
            made = messages.wrapped(self._edited(message, edit)) if edit else body
        except messages.Special as problem:
            self.let_go(str(problem))
            return body
        except Exception as problem:
            intercept.trouble.note(part, problem)
            intercept.requests.add(call=self.name, result="failed open")
            return body
        intercept.requests.add(call=self.name, result="edited" if edit else "left")
        intercept.seconds.observe(time.perf_counter() - began)
        return made

    def let_go(self, _why: str) -> None:
        self._intercept.requests.add(call=self.name, result="passed unread")

    def answered(self, trailers: Headers, body: bytes | None) -> None:
        if self._asked is None:
            return
        status, message = _status(trailers)
        if status != _OK:
            event = self._failed(self._asked, message, status not in _UNSURE)
        else:
            try:
                event = self._done(self._asked, messages.unwrapped(body or b""))
            except Exception as problem:
                self._intercept.trouble.note("message", problem)
                event = self._failed(self._asked, "its answer can't be read", False)
        self._intercept.tell(self._policy, event)

    def lost(self, why: str, certain: bool) -> None:
        if self._asked is not None:
            self._intercept.tell(self._policy, self._failed(self._asked, why, certain))

    def _read(self, key: int, message: bytes) -> T:
        raise NotImplementedError

    def _decide(self, asked: T) -> Edit:
        raise NotImplementedError

    def _edited(self, message: bytes, edit: Edit) -> bytes:
        raise NotImplementedError

    def _done(self, asked: T, answer: bytes) -> Event:
        raise NotImplementedError

    def _failed(self, asked: T, why: str, certain: bool) -> Event:
        raise NotImplementedError


class _Create(_Held[Creation]):
    name = "CreateContainer"

    def _read(self, key: int, message: bytes) -> Creation:
        return messages.creation(key, message)

    def _decide(self, asked: Creation) -> Edit:
        return self._policy.create(asked)

    def _edited(self, message: bytes, edit: Edit) -> bytes:
        return messages.edited_creation(message, edit)

    def _done(self, asked: Creation, answer: bytes) -> Event:
        return ContainerCreated(asked.key, messages.read("CreateContainerResponse", answer).container_id)

    def _failed(self, asked: Creation, why: str, certain: bool) -> Event:
        return CreationFailed(asked.key, why, certain)


class _Resize(_Held[Resize]):
    name = "UpdateContainerResources"

    def _read(self, key: int, message: bytes) -> Resize:
        return messages.resize(key, message)

    def _decide(self, asked: Resize) -> Edit:
        return self._policy.resize(asked)

    def _edited(self, message: bytes, edit: Edit) -> bytes:
        return messages.edited_resize(message, edit)

    def _done(self, asked: Resize, _answer: bytes) -> Event:
        return ContainerResized(asked.key, asked.container_id)

    def _failed(self, asked: Resize, why: str, certain: bool) -> Event:
        return ResizeFailed(asked.key, asked.container_id, why, certain)


class _Seen:
    """A call that is read in passing, and matters only when it succeeded."""

    holds = False

    def __init__(self, intercept: Intercept, policy: Policy, event: Callable[[bytes, bytes], Event]) -> None:
        self._intercept = intercept
        self._policy = policy
        self._event = event
        self._request: bytes | None = None

    def requested(self, body: bytes) -> bytes:
        self._request = body
        return body

    def let_go(self, why: str) -> None:
        pass

    def answered(self, trailers: Headers, body: bytes | None) -> None:
        if self._request is None or body is None or _status(trailers)[0] != _OK:
            return
        try:
            event = self._event(messages.unwrapped(self._request), messages.unwrapped(body))
        except Exception as problem:
            self._intercept.trouble.note("message", problem)
            return
        self._intercept.tell(self._policy, event)

    def lost(self, why: str, certain: bool) -> None:
        pass


def _status(trailers: Headers) -> tuple[bytes | None, str]:
    found = dict(trailers)
    return found.get(b"grpc-status"), unquote(found.get(b"grpc-message", b"").decode("latin-1"), errors="replace")


def _sandbox_created(request: bytes, answer: bytes) -> Event:
    pod = messages.pod(messages.read("RunPodSandboxRequest", request).config)
    return SandboxCreated(messages.read("RunPodSandboxResponse", answer).pod_sandbox_id, pod)


def _sandbox_stopped(request: bytes, _answer: bytes) -> Event:
    return SandboxStopped(messages.read("StopPodSandboxRequest", request).pod_sandbox_id)


def _sandbox_removed(request: bytes, _answer: bytes) -> Event:
    return SandboxRemoved(messages.read("RemovePodSandboxRequest", request).pod_sandbox_id)


def _container_stopped(request: bytes, _answer: bytes) -> Event:
    return ContainerStopped(messages.read("StopContainerRequest", request).container_id)


def _container_removed(request: bytes, _answer: bytes) -> Event:
    return ContainerRemoved(messages.read("RemoveContainerRequest", request).container_id)


_HELD: Mapping[bytes, Callable[[Intercept, Policy], Interest]] = {
    f"/{RUNTIME}/{call.name}".encode(): call for call in (_Create, _Resize)
}
_SEEN: Mapping[bytes, Callable[[bytes, bytes], Event]] = {
    f"/{RUNTIME}/{name}".encode(): event
    for name, event in {
        "RunPodSandbox": _sandbox_created,
        "StopPodSandbox": _sandbox_stopped,
        "RemovePodSandbox": _sandbox_removed,
        "StopContainer": _container_stopped,
        "RemoveContainer": _container_removed,
    }.items()
}
