# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A connection to the API server, kept for the next request: HTTP/1.1 over TLS, through a proxy where there is one."""

from __future__ import annotations

import base64
import http.client
import select
import socket
import ssl
from collections.abc import Iterable

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, split_server


class Wire:
    """A connection. `used` says whether it carried a request before, `alive` whether it can carry another."""

    def __init__(self, access: Access, context: ssl.SSLContext, timeout: float, generation: int) -> None:
        scheme, host, port, self._prefix = split_server(access.server)
        name = access.server_name or host
        at, at_port = (access.proxy.host, access.proxy.port) if access.proxy else (host, port)
        self._http: http.client.HTTPConnection = (
            _Encrypted(at, at_port, timeout, context, name)
            if scheme == "https"
            else http.client.HTTPConnection(at, at_port, timeout=timeout)
        )
        if access.proxy:
            headers = {}
            if access.proxy.authorization:
                pair = base64.b64encode(access.proxy.authorization.encode()).decode()
                headers["Proxy-Authorization"] = f"Basic {pair}"
            self._http.set_tunnel(host, port, headers)
        self.generation = generation
        self.used = False
        self.alive = False

    def connect(self) -> None:
        """Until here nothing was asked."""
        self._http.connect()
        self.alive = True

    def exchange(
        self, verb: str, target: str, content: bytes | None, headers: Iterable[tuple[str, str | bytes]]
    ) -> tuple[int, dict[str, str], bytes]:
        """One request and its answer: status, headers with names in lower case, body."""
        self.alive = False
        self._http.putrequest(verb, self._prefix + target, skip_accept_encoding=True)
        for name, value in headers:
            self._http.putheader(name, value)
        if content is not None:
            self._http.putheader("Content-Length", str(len(content)))
        self._http.endheaders(content)
        with self._http.getresponse() as answer:  # one that breaks off would keep its socket until it is collected
            text = answer.read()
        self.used = True
        self.alive = not answer.will_close
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text

    def is_quiet(self) -> bool:
        """Whether the server says nothing on an idle connection: what it could say is that it closes it."""
        ready = select.poll()
        ready.register(self._http.sock, select.POLLIN)
        return not ready.poll(0)

    def close(self) -> None:
        self.alive = False
        self._http.close()


class _Encrypted(http.client.HTTPSConnection):
    """Asks for a certificate of a name that need not be the host's."""

    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._name = name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)  # the socket, and the proxy's tunnel
        plain = self.sock
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._name)
        except BaseException:
            plain.close()
            raise


def describe(problem: Exception) -> str:
    """An error in words, also where Python leaves its text empty."""
    if isinstance(problem, (TimeoutError, socket.timeout)):
        return "no answer within the time limit"
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return text or type(problem).__name__
