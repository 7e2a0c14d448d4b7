# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One gRPC call without a stream over a unix socket, with the standard library: a request's bytes in, an answer's out.

grpcio is in the agents' release directory, but that need not be on the node, nor fit the Python that Ansible runs
there; and one call needs little of HTTP/2. We open one stream on a connection of its own, give the server all the
credit that there is, so that no window has to be kept, and read until the stream ends.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

from ansible_collections.colocation.kubernetes.plugins.module_utils._hpack_read import HeaderReader, HpackError

MOST_ANSWER = 64 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
_TABLE_SIZE, _INITIAL_WINDOW = 1, 4
_MOST_WINDOW = (1 << 31) - 1
_FIRST_WINDOW = 65535
_MOST_FRAME = 16384  # what we allow by saying nothing else
_STREAM = 1
_STATUS = {
    1: "cancelled", 2: "unknown", 3: "invalid argument", 4: "deadline exceeded", 5: "not found", 7: "permission denied",
    8: "resource exhausted", 12: "unimplemented", 13: "internal", 14: "unavailable", 16: "unauthenticated",
}  # fmt: skip


class CallError(Exception):
    """The call failed; the text says how."""


def call(path: str, method: str, request: bytes, timeout: float) -> bytes:
    """The answer's message of `method` ("/package.Service/Method") at the socket `path`."""
    end = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.settimeout(timeout)
            wire.connect(path)
            wire.sendall(_PREFACE + _settings() + _window() + _request(method, request, timeout))
            return _Reply(wire.sendall).read(_frames(wire, end))
    except TimeoutError:
        raise CallError(f"{path} did not answer within {timeout:g} s") from None
    except OSError as problem:
        raise CallError(f"{path}: {problem.strerror or problem}") from None
    except HpackError as problem:
        raise CallError(f"{path} speaks no gRPC: {problem}") from None


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _settings() -> bytes:
    content = struct.pack(">HIHI", _TABLE_SIZE, 0, _INITIAL_WINDOW, _MOST_WINDOW)
    return _frame(_SETTINGS, 0, 0, content)


def _window() -> bytes:
    return _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _MOST_WINDOW - _FIRST_WINDOW))


def _request(method: str, request: bytes, timeout: float) -> bytes:
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", f"{max(1, int(timeout * 1000))}m"),
    )
    block = b"".join(b"\0" + _literal(name) + _literal(value) for name, value in headers)
    message = b"\0" + struct.pack(">I", len(request)) + request
    return _frame(_HEADERS, _END_HEADERS, _STREAM, block) + _frame(_DATA, _END_STREAM, _STREAM, message)


def _literal(text: str) -> bytes:
    content = text.encode("ascii")
    if len(content) > 126:
        raise ValueError("a header that is longer than this client writes")
    return bytes([len(content)]) + content


def _frames(wire: socket.socket, end: float) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and content of each frame until the server closes."""
    kept = bytearray()
    while True:
        while len(kept) >= 9:
            size = int.from_bytes(kept[:3], "big")
            if size > _MOST_FRAME:
                raise CallError(f"it speaks no HTTP/2: a frame of {size} bytes")
            if len(kept) < 9 + size:
                break
            kind, flags, stream = struct.unpack(">BBI", kept[3:9])
            content = bytes(kept[9 : 9 + size])
            del kept[: 9 + size]
            yield kind, flags, stream & _MOST_WINDOW, content
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        wire.settimeout(left)
        chunk = wire.recv(1 << 18)
        if not chunk:
            return
        kept += chunk


class _Reply:
    """What came of our one stream."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._reader = HeaderReader()
        self._headers: dict[str, str] = {}
        self._block = bytearray()
        self._body = bytearray()
        self._ends = False  # with the header block that is being read
        self._ended = False

    def read(self, frames: Iterable[tuple[int, int, int, bytes]]) -> bytes:
        """The message, once the stream has ended well."""
        for kind, flags, stream, content in frames:
            if kind in (_HEADERS, _CONTINUATION):
                self._header(kind, flags, content)
            elif stream == _STREAM:
                self._stream_frame(kind, flags, content)
            else:
                self._connection_frame(kind, flags, content)
            if self._ended:
                return _message(self._headers, bytes(self._body))
        raise CallError("it closed the connection before it answered")

    def _connection_frame(self, kind: int, flags: int, content: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._send(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._send(_frame(_PING, _ACK, 0, content))
        elif kind == _GOAWAY and int.from_bytes(content[:4], "big") & _MOST_WINDOW < _STREAM:
            raise CallError(f"it closes the connection: {content[8:].decode(errors='replace') or 'no reason given'}")

    def _stream_frame(self, kind: int, flags: int, content: bytes) -> None:
        if kind == _RESET:
            raise CallError(f"it broke the call off, HTTP/2 error {int.from_bytes(content, 'big')}")
        if kind == _DATA:
            self._body += _unpadded(content, flags & ~_PRIORITY)
            self._ended = bool(flags & _END_STREAM)
            if len(self._body) > MOST_ANSWER:
                raise CallError(f"its answer is larger than {MOST_ANSWER} bytes")

    def _header(self, kind: int, flags: int, content: bytes) -> None:
        """Blocks of other streams would have to be decoded too, but there is none."""
        if kind == _HEADERS:
            self._ends = bool(flags & _END_STREAM)
            content = _unpadded(content, flags)
        self._block += content
        if flags & _END_HEADERS:
            self._headers.update(self._reader.read(bytes(self._block)))
            self._block.clear()
            self._ended = self._ends


def _unpadded(content: bytes, flags: int) -> bytes:
    padding = 0
    if flags & _PADDED:
        padding, content = content[0] if content else 0, content[1:]
    if flags & _PRIORITY:
        content = content[5:]
    if padding > len(content):
        raise CallError("it speaks no HTTP/2: more padding than frame")
    return content[: len(content) - padding]


def _message(headers: dict[str, str], body: bytes) -> bytes:
    if headers.get(":status", "200") != "200":
        raise CallError(f"it answers with HTTP status {headers[':status']}")
    status = headers.get("grpc-status", "")
    if status != "0":
        code = int(status) if status.isdecimal() else 2
        said = unquote(headers.get("grpc-message", ""))
        raise CallError(f"it answers {_STATUS.get(code, f'status {code}')}{f': {said}' if said else ''}")
    if len(body) < 5 or body[0] != 0 or int.from_bytes(body[1:5], "big") != len(body) - 5:
        raise CallError("its answer is not one plain message")
    return body[5:]
