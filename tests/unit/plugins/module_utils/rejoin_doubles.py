# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A rejoin without machines: a double of the host, a double of the API for unit tests, and runs that can be killed.

The contract tests drive the same runs against a real API server.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import JSON_PATCH, ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import FIELD_MANAGER
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_cluster import ClusterSide, Terms
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import NodeLock
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    DELETE,
    DRAIN,
    JOIN,
    PREPARE,
    REJOINING,
    RESET,
    STOP,
    HostView,
    KeptFile,
    Record,
    RejoinRefused,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_store import RecordStore

NAMESPACE = "kube-system"
RESOURCE = "mock.com/gpu"


class Killed(BaseException):
    """The run is dead here."""


@dataclass
class Strokes:
    """Counts what a run does to the world; `at`: the stroke with which it dies, `after` or before it is done."""

    at: int = 0
    after: bool = True
    count: int = 0

    def dies_before(self) -> None:
        self.count += 1
        if self.count == self.at and not self.after:
            raise Killed

    def dies_after(self) -> None:
        if self.count == self.at and self.after:
            raise Killed


class MortalClient:
    """A client whose writes are strokes; deleting a Node whose pods run is an error of the product."""

    def __init__(self, client: Any, strokes: Strokes, host: HostDouble) -> None:
        self._client = client
        self._strokes = strokes
        self._host = host

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return self._client.get(path, query)

    def find(self, path: str) -> Any:
        return self._client.find(path)

    def items(self, path: str, **selectors: str) -> Any:
        return self._client.items(path, **selectors)

    def post(self, *arguments: Any) -> Any:
        return self._stroke("post", arguments, {})

    def patch(self, *arguments: Any, **options: Any) -> Any:
        return self._stroke("patch", arguments, options)

    def delete(self, *arguments: Any, **options: Any) -> Any:
        if "/nodes/" in arguments[0]:
            assert not self._host.pods_run, "a Node was deleted while its pods ran"
        return self._stroke("delete", arguments, options)

    def _stroke(self, verb: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self._strokes.dies_before()
        try:
            return getattr(self._client, verb)(*arguments, **options)
        finally:
            self._strokes.dies_after()  # also of a write that was refused


@dataclass
class HostDouble:
    """A machine with a kubelet, as far as a rejoin sees it; its kubelet speaks through a client of its own."""

    client: Any
    node: str
    strokes: Strokes = field(default_factory=Strokes)
    identity: str = "old"  # what kubelet.conf holds: old, new or nothing
    mark: str = ""
    kubelet_runs: bool = True
    pods_run: bool = True
    agents_run: bool = True
    files: tuple[KeptFile, ...] = (KeptFile("/etc/cni/net.d/10-own.conflist", "e30=", 0o644),)
    machine_id: str = ""
    units: tuple[str, ...] = ("colocation-device-plugin.service",)
    flags: dict[str, str] = field(default_factory=lambda: {"node-ip": "10.0.0.11"})

    def look(self) -> tuple[HostView, tuple[KeptFile, ...]]:
        agents = self.units if self.agents_run or self.identity == "old" else ()
        view = HostView(
            self.node,
            reachable=True,
            machine_id=self.machine_id,
            kubelet_running=self.kubelet_runs,
            kubelet_conf=bool(self.identity),
            mark=self.mark,
            agents=agents,
            kubelet_flags=self.flags,
        )
        return view, self.files

    def stop(self, operation: str) -> dict[str, Any]:
        for name in ("kubelet_runs", "agents_run", "pods_run"):
            self._set(name, False)
        return {"operation": operation, "stopped": True}

    def reset(self, operation: str) -> None:
        assert not self.kubelet_runs and not self.pods_run
        self._set("identity", "")
        self.flags = {}
        self._set("files", ())
        self._set("mark", operation)

    def join(self, way: Mapping[str, Any], files: tuple[KeptFile, ...], flags: dict[str, str]) -> None:
        assert not self.identity, "kubeadm refuses a host that has an identity"
        token_id, secret = way["token"].split(".")
        found = self.client.get(f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token_id}")
        assert found["type"] == "bootstrap.kubernetes.io/token" and secret
        self._set("files", files)
        self.flags = flags
        self._set("kubelet_runs", True)
        try:
            self._set("identity", "new")
        finally:  # the kubelet lives on where the run dies
            self._kubelet_starts()

    def _kubelet_starts(self) -> None:
        if self.identity:
            self.register()

    def start(self, units: tuple[str, ...]) -> None:
        self._set("agents_run", bool(units))
        self._set("mark", "")

    def reboot(self) -> None:
        """The kubelet starts again, with whatever identity there is, and registers its Node where there is none."""
        self.kubelet_runs = bool(self.identity)
        self.pods_run = self.kubelet_runs
        self.agents_run = True
        if self.kubelet_runs:
            self.register()

    def register(self) -> None:
        """What a kubelet does when it starts: it makes its Node only where there is none."""
        path = f"/api/v1/nodes/{self.node}"
        try:
            self.client.get(path)
        except ApiError as error:
            assert error.status == 404
            metadata = {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}}
            self.client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting ready status"}
        beat = {**ready, "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self.sync({"conditions": [beat], "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}})

    def follow(self) -> None:
        """A kubelet's next sync: what is allocatable comes of capacity."""
        if self.kubelet_runs:
            capacity = self.client.get(f"/api/v1/nodes/{self.node}")["status"].get("capacity") or {}
            self.sync({"allocatable": capacity})

    def sync(self, status: dict[str, Any]) -> None:
        self.client.patch(f"/api/v1/nodes/{self.node}/status", {"status": status}, field_manager="kubelet")

    def _set(self, name: str, value: Any) -> None:
        self.strokes.dies_before()
        setattr(self, name, value)
        self.strokes.dies_after()


def rejoin(
    client: Any, host: HostDouble, strokes: Strokes, terms: Terms | None = None, **times: Any
) -> tuple[str, ...]:
    """One run, as the role's tasks and their rescue do it; the steps that it found left."""
    mortal: Any = MortalClient(client, strokes, host)
    host.strokes = strokes
    holder = f"run-{uuid.uuid4().hex[:6]}"
    lock = NodeLock(mortal, host.node, NAMESPACE, holder, 1, **times)
    waits = {name: times[name] for name in ("clock", "sleep") if name in times}
    side = ClusterSide(mortal, host.node, lock, RecordStore(mortal, host.node, NAMESPACE), **waits)
    view, files = host.look()
    record, steps = side.begin(view, files, terms or Terms(), check_mode=False)
    if not steps:
        return steps
    try:
        _do(side, host, record, view, steps, terms or Terms())
    except RejoinRefused as problem:
        side.fail(str(problem))
        raise
    return steps


def _do(
    side: ClusterSide, host: HostDouble, record: Record, view: HostView, steps: tuple[str, ...], terms: Terms
) -> None:
    proof: dict[str, Any] = {}
    if DRAIN in steps:
        side.drain(view, 5, terms.delete_bare_pods)
    if STOP in steps:
        proof = host.stop(record.operation)
    if DELETE in steps:
        side.delete(view, proof, False, 5)
    if RESET in steps:
        host.reset(record.operation)
    if PREPARE in steps and JOIN in steps:
        host.join(*side.prepare(600), record.kubelet_flags)
    side.restore(5)
    host.start(record.agents)
    side.finish(5)


class KubeDouble:
    """As much of an API server as a rejoin needs: objects by path, versions, patches, preconditions, evictions."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.budget: dict[str, int] = {}  # by pod: how often its disruption budget refuses
        self.stuck: set[str] = set()  # pods that never end
        self._versions = itertools.count(1)

    def get(self, path: str, _query: Mapping[str, str] | None = None) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError(f"{path}: 404", 404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    def find(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.objects.get(path))

    def items(self, path: str, label_selector: str = "", field_selector: str = "") -> list[dict[str, Any]]:
        kind = path.rpartition("/")[2]
        found = [one for at, one in self.objects.items() if at.split("/")[-2] == kind]
        if label_selector:
            name, value = label_selector.split("=")
            found = [one for one in found if (one["metadata"].get("labels") or {}).get(name) == value]
        if field_selector:
            found = [one for one in found if one["spec"].get("nodeName") == field_selector.partition("=")[2]]
        return copy.deepcopy(found)

    def post(self, path: str, body: dict[str, Any], _query: Mapping[str, str] | None = None) -> dict[str, Any]:
        if path.endswith("/eviction"):
            return self._evict(path.removesuffix("/eviction"))
        at = f"{path}/{body['metadata']['name']}"
        if at in self.objects:
            raise ApiError(f"{at}: 409", 409, "AlreadyExists")
        stored = copy.deepcopy(body)
        stored["metadata"]["uid"] = str(uuid.uuid4())
        self._store(at, stored)
        return copy.deepcopy(stored)

    def patch(self, path: str, body: Any, kind: str = "merge", **options: Any) -> dict[str, Any]:
        at = path.removesuffix("/status")
        found = self.get(at)
        manager = options.get("field_manager", "")
        if kind == JSON_PATCH:
            for operation in body:
                self._operate(found, operation, manager)
        else:
            wanted = (body.get("metadata") or {}).get("resourceVersion")
            if wanted and wanted != found["metadata"]["resourceVersion"]:
                raise ApiError(f"{at}: 409", 409, "Conflict")
            found = _merged(found, body)
            for name in (body.get("status") or {}).get("capacity") or {}:
                _own(found, manager, name)
        self._store(at, found)
        return copy.deepcopy(found)

    def delete(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        found = self.get(path)
        for name, value in ((body or {}).get("preconditions") or {}).items():
            if found["metadata"][name] != value:
                raise ApiError(f"{path}: 409", 409, "Conflict")
        del self.objects[path]
        return {}

    def _store(self, at: str, found: dict[str, Any]) -> None:
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[at] = found

    def _evict(self, at: str) -> dict[str, Any]:
        pod = self.get(at)
        name = pod["metadata"]["name"]
        if self.budget.get(name, 0) > 0:
            self.budget[name] -= 1
            raise ApiError(f"{at}: 429", 429, "TooManyRequests", "it would violate the pod's disruption budget")
        if name in self.stuck:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._store(at, pod)
        else:
            del self.objects[at]
        return {}

    def _operate(self, found: dict[str, Any], operation: dict[str, Any], manager: str) -> None:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place: Any = found
        for part in way:
            place = place.setdefault(part, {})
        if operation["op"] == "test":
            if place.get(last) != operation["value"]:
                raise ApiError("422", 422, "Invalid", "the test failed")
        elif operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
            if way[-1:] == ["capacity"]:
                _own(found, manager, last)
                found["status"].setdefault("allocatable", {})[last] = operation["value"]  # as the kubelet would


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _own(found: dict[str, Any], manager: str, resource: str) -> None:
    """managedFields, as far as capacity goes."""
    entries = found["metadata"].setdefault("managedFields", [])
    for entry in entries:
        entry["fieldsV1"]["f:status"]["f:capacity"].pop(f"f:{resource}", None)
    entries.append({"manager": manager, "fieldsV1": {"f:status": {"f:capacity": {f"f:{resource}": {}}}}})


def patch_resource(client: Any, node: str, resource: str, amount: str) -> None:
    """As node_capacity writes it."""
    path = "/status/capacity/" + resource.replace("/", "~1")
    client.patch(
        f"/api/v1/nodes/{node}/status",
        [{"op": "add", "path": path, "value": amount}],
        JSON_PATCH,
        field_manager=FIELD_MANAGER,
    )


def furnish(client: Any, node: str, authority: str, **spec: Any) -> None:
    """A worker that somebody cares for: labels, a taint, an annotation, a patched resource; and how to join."""
    kubeconfig = {
        "clusters": [{"cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": authority}}]
    }
    info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": json.dumps(kubeconfig)}}
    with contextlib.suppress(ApiError):  # another test made it
        client.post("/api/v1/namespaces/kube-public/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **info})
    metadata = {
        "name": node,
        "labels": {"team": "blue", "kubernetes.io/hostname": node, "rejoin-test": "yes"},
        "annotations": {"example.com/rack": "r1", "flannel.alpha.coreos.com/backend-data": "old"},
    }
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints, **spec}}
    client.post("/api/v1/nodes", body)
    HostDouble(client, node).register()
    patch_resource(client, node, RESOURCE, "10")


def snapshot(client: Any, node: str) -> dict[str, Any]:
    """What has to be the same after a rejoin, and what may not be left."""
    found = client.get(f"/api/v1/nodes/{node}")
    metadata, spec = found["metadata"], found["spec"]
    taints = [taint for taint in spec.get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
    return {
        "labels": metadata.get("labels"),
        "rack": (metadata.get("annotations") or {}).get("example.com/rack"),
        "rejoining": (metadata.get("annotations") or {}).get(REJOINING),
        "taints": [{key: taint.get(key) for key in ("key", "value", "effect")} for taint in taints],
        "gpus": (found["status"].get("capacity") or {}).get(RESOURCE),
        "cordoned": bool(spec.get("unschedulable")),
        "left": leftovers(client, node),
    }


def leftovers(client: Any, node: str) -> list[str]:
    """Saved states, locks and tokens."""
    secrets = client.items(f"/api/v1/namespaces/{NAMESPACE}/secrets")
    leases = client.items(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
    return [one["metadata"]["name"] for one in (*secrets, *leases) if node in json.dumps(one["metadata"])
            or one["metadata"]["name"].startswith("bootstrap-token-")]  # fmt: skip
