# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The cluster's API through one lasting `kubectl proxy`.

Its socket is a file, so it is reached from outside the cluster's network, and asking costs no process.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .steps import Trouble

PLACES = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
NOT_FOUND = 404


class ApiFailed(Trouble):
    """The API did not answer, or not with success."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Api:
    """Asks one question after the other; any thread may."""

    def __init__(self, path: Path, timeout: float = 20.0) -> None:
        self._path = path
        self._timeout = timeout

    def get(self, path: str) -> dict[str, Any]:
        """What stands there."""
        return self._ask("GET", path)

    def apply(self, thing: Mapping[str, Any]) -> None:
        """Have an object there as described."""
        path = f"{place(thing)}?fieldManager=demo&force=true"
        self._ask("PATCH", path, thing, "application/apply-patch+yaml")

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Make something; what came of it."""
        return self._ask("POST", path, document)

    def delete(self, thing: Mapping[str, Any]) -> None:
        """Have an object gone; one that is not there is."""
        try:
            self._ask("DELETE", place(thing), {"propagationPolicy": "Background"})
        except ApiFailed as failed:
            if failed.status != NOT_FOUND:
                raise

    def there(self, thing: Mapping[str, Any]) -> bool:
        """Whether an object is there."""
        try:
            self._ask("GET", place(thing))
        except ApiFailed as failed:
            if failed.status != NOT_FOUND:
                raise
            return False
        return True

    def _ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        connection = _Connection(self._path, self._timeout)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": kind, "Accept": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            raise ApiFailed(f"{method} {path}: no answer: {problem}") from None
        finally:
            connection.close()
        if answer.status >= 300:
            raise ApiFailed(f"{method} {path}: {answer.status} {content[:300].decode(errors='replace')}", answer.status)
        try:
            document = json.loads(content or b"{}")
        except ValueError:
            raise ApiFailed(f"{method} {path}: the answer is no JSON: {content[:100]!r}") from None
        return document if isinstance(document, dict) else {}


def place(thing: Mapping[str, Any]) -> str:
    """The path of an object."""
    metadata = thing["metadata"]
    return f"{PLACES[thing['kind']].format(namespace=metadata.get('namespace', ''))}/{metadata['name']}"
