# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Free ports on loopback for the servers that tests start, given to one process only.

A port that the kernel chose and that is closed again may be anyone's before the server listens: another test process
asks at the same time, or a connection goes out from it. So these lie below what the kernel chooses from, and who gives
ports from a block holds a socket named after the block, which the kernel lets go of when the process ends, however.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

FIRST, LAST, BLOCK = 18000, 32768, 64
_claims: list[socket.socket] = []
_lock = threading.Lock()


def _claimed() -> Iterator[int]:
    for first in range(FIRST, LAST - BLOCK, BLOCK):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0colocation-test-ports-{first}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        yield from range(first, first + BLOCK)
    raise AssertionError(f"no free port of {FIRST} to {LAST}: other tests hold them")


_ports = _claimed()


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens at and that no other caller gets."""
    with _lock:
        return next(port for port in _ports if _is_free(port))
