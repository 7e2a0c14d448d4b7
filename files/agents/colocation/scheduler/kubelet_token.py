# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The token that kubelets are shown: a short one of an account that may ask kubelets and do nothing else.

Ours may do whatever kube-scheduler may, for both are in one pod; who breaks into one node, or claims to be one, would
have it from us.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from colocation.common.kube_api import ApiError, KubeApi
from colocation.scheduler.sources import SourceError

LIVES = 3600  # seconds; the API server gives no less
RENEWED = 1800.0  # seconds after which another is asked for
LEFT = 60.0  # seconds before its end in which it is shown no more


class AccountToken:
    """Asked by one thread. Ages are by our own clock, so nobody's clock needs to be right."""

    def __init__(self, api: KubeApi, account: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._account = account
        self._clock = clock
        self._token = ""
        self._since = 0.0

    def get(self) -> str:
        """The token; SourceError where none can be had."""
        now = self._clock()
        if not self._token or now - self._since > RENEWED:
            try:
                self._token, self._since = self._ask(), now
            except ApiError as problem:
                if not self._token or now - self._since > LIVES - LEFT:
                    raise SourceError(f"no token of the account {self._account} for the kubelets: {problem}") from None
        return self._token

    def forget(self) -> None:
        """It is taken by nobody; the account may be another one under the same name."""
        self._token = ""

    def _ask(self) -> str:
        namespace, _slash, name = self._account.partition("/")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIVES},
        }
        status = self._api.post(path, wanted).get("status")
        token = status.get("token") if isinstance(status, dict) else None
        if not isinstance(token, str) or not token:
            raise ApiError("the API's answer has none")
        return token
