# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Asking a running agent on this machine how it is, for its command `status`."""

from __future__ import annotations

import socket

from colocation.common.status import Status, from_json

MOST = 64 << 20


class NoStatus(Exception):
    """The agent gave no answer; the text says why and what to do."""


def ask(address: str, port: int, timeout: float = 5) -> Status:
    """The status of the agent at that address."""
    where = f"http://{address}:{port}/status"
    try:
        with socket.create_connection((address, port), timeout) as connection:
            connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b"".join(_chunks(connection))
    except OSError as problem:
        raise NoStatus(f"{where} does not answer ({problem}); does the service run?") from None
    head, _end, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise NoStatus(f"{where} answers {head[:60].decode('latin-1').splitlines()[:1]}; is that port an agent's?")
    try:
        return from_json(body.decode())
    except ValueError as problem:
        raise NoStatus(f"{where}: {problem}; is that port an agent's?") from None


def _chunks(connection: socket.socket) -> list[bytes]:
    chunks, size = [], 0
    while chunk := connection.recv(65536):
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST:
            raise OSError(f"more than {MOST} bytes")
    return chunks
