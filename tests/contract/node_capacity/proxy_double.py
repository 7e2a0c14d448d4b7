# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of an HTTP proxy that knows CONNECT and lets in who says `u:p`."""

from __future__ import annotations

import contextlib
import socket
import threading

_WELCOME = b"Proxy-Authorization: Basic dTpw\r\n"


class ProxyDouble:
    """Relays until `stop`; `asked` are the requests that came."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def stop(self) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes whoever waits on it
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()

    def _start(self, target: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _address = self._listener.accept()
                self._sockets.append(near)
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        request = near.recv(65536)
        self.asked.append(request)
        if _WELCOME not in request:
            near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            near.shutdown(socket.SHUT_RDWR)
            return
        host, _colon, port = request.split()[1].decode().rpartition(":")
        far = socket.create_connection((host, int(port)))
        self._sockets.append(far)
        near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        self._start(_pump, near, far)
        self._start(_pump, far, near)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
