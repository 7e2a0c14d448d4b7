# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A lock for one node in the cluster, so that two runs don't rejoin it at once: a Lease with a holder and an expiry.

Every write to the cluster renews it first, and so notices when another run has taken over. On the host itself a lock of
the kernel does the same (`_rejoin_host`), for there a killed run's module lives on for a while.
"""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    JSON_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import seconds
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import RejoinRefused

LABELS = {"app.kubernetes.io/managed-by": "colocation.kubernetes", "app.kubernetes.io/component": "rejoin"}
MANAGER = "colocation.kubernetes.node_rejoin"
PREFIX = "colocation-rejoin-"
_LONGEST = 253
_PAUSE = 1.0


def object_name(node: str) -> str:
    """The name of a node's Lease and Secret; that of a very long name is cut and told apart by its hash."""
    name = PREFIX + node
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 17].rstrip('.-')}-{hashlib.sha256(node.encode()).hexdigest()[:16]}"


class NodeLock:
    """The lock of one node for one run."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        namespace: str,
        holder: str,
        seconds_held: int,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._node = node
        self._leases = api_path("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
        self._path = self._leases + api_path(object_name(node))
        self.holder = holder
        self._seconds = seconds_held
        self._now = now
        self._clock = clock
        self._sleep = sleep

    def acquire(self) -> None:
        """Take it, or wait until the run that has it is seen dead; one that renews it is alive, and we are refused.

        Its time by our clock may be wrong, so a lease that does not look expired is watched by our own.
        """
        first, since = "", self._clock()
        while True:
            lease = self._create()
            if lease is None:
                return
            spec = lease.get("spec") or {}
            holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
            held = float(spec.get("leaseDurationSeconds") or 0)
            if not holder or holder == self.holder or self._is_over(renewed, held) or self._clock() - since >= held:
                if self._take(holder, renewed):
                    return
                first, since = "", self._clock()
                continue
            if first and renewed != first:
                raise RejoinRefused(f"another run ({holder}) works on {self._node}, and renewed its lock at {renewed}")
            first = renewed
            self._sleep(_PAUSE)

    def renew(self) -> None:
        """Say that we are alive; RejoinRefused when another run has taken over."""
        tests = [{"op": "test", "path": "/spec/holderIdentity", "value": self.holder}]
        try:
            self._client.patch(self._path, [*tests, *self._values("replace")], JSON_PATCH, repeat=True)
        except ApiError as error:
            if error.status not in (404, 422):
                raise
            raise RejoinRefused(
                f"this run lost its lock of {self._node}: it was silent for more than {self._seconds} s and another "
                "run has taken over, or somebody deleted it; nothing more was done here. Run again"
            ) from None

    def release(self) -> None:
        """Let others in at once; what is not ours is left."""
        try:
            lease = self._client.get(self._path)
            if (lease.get("spec") or {}).get("holderIdentity") == self.holder:
                version = lease["metadata"]["resourceVersion"]
                self._client.delete(self._path, {"preconditions": {"resourceVersion": version}})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _create(self) -> dict[str, Any] | None:
        """None when the lock is ours now, else the Lease that stands."""
        spec = {operation["path"].rpartition("/")[2]: operation["value"] for operation in self._values("add")}
        metadata = {"name": self._path.rpartition("/")[2], "labels": LABELS}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            self._client.post(self._leases, body, {"fieldManager": MANAGER})
            return None
        except ApiError as error:
            if error.status != 409:
                raise
        try:
            return self._client.get(self._path)
        except ApiError as error:
            if error.status != 404:
                raise
            return {}  # just released

    def _take(self, holder: str, renewed: str) -> bool:
        """Take over what stands as it was read; False when somebody was faster."""
        tests = [
            {"op": "test", "path": "/spec/holderIdentity", "value": holder or None},
            {"op": "test", "path": "/spec/renewTime", "value": renewed or None},
        ]
        try:
            self._client.patch(self._path, [*tests, *self._values("add")], JSON_PATCH)
        except ApiError as error:
            if error.status in (404, 409, 422):
                return False
            raise
        return True

    def _values(self, operation: str) -> list[dict[str, Any]]:
        moment = datetime.datetime.fromtimestamp(self._now(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        values: dict[str, Any] = {"holderIdentity": self.holder, "renewTime": moment}
        if operation == "add":
            values |= {"acquireTime": moment, "leaseDurationSeconds": self._seconds}
        return [{"op": operation, "path": f"/spec/{name}", "value": value} for name, value in values.items()]

    def _is_over(self, renewed: str, held: float) -> bool:
        moment = seconds(renewed)
        return moment is None or moment + held < self._now()
