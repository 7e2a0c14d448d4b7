# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The steps of a rejoin that are done through the API: save, drain, delete, make anew, restore, finish.

Each may be killed after any of its writes, and each looks before it writes, so the next run finds its way
(`_rejoin_plan`). The order of writes is what keeps that true: what can't be seen later is saved before it goes, the
lock is renewed before each write, the saved state goes when nothing needs it any more, and the lock last.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import (
    PRESENT,
    Wish,
    make_plan,
    make_wish,
    unsettled,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_run import CapacityRun
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_drain import (
    Drain,
    Name,
    bare_pods,
    pods_on,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import MANAGER, NodeLock
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    DRAIN,
    DRAINED,
    DRAINING,
    SAVED,
    UNDONE,
    HostView,
    KeptFile,
    Record,
    RejoinRefused,
    refusals,
    steps_left,
    view_of,
    waits_for_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_saved import (
    finishing,
    new_node,
    restoring,
    save_node,
    static_files,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_store import RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_token import (
    drop_tokens,
    endpoint_of,
    make_token,
    pins,
    read_cluster_info,
)

PAUSE = 1.0
RENEWAL = 5.0  # seconds between renewals of the lock while we wait
CONFLICTS = 5
_NODES = api_path("api", "v1", "nodes")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user allows."""

    fenced: bool = False
    delete_bare_pods: bool = False
    only_unfinished: bool = False


class ClusterSide:
    """One run's hands in the cluster, for one node."""

    def __init__(
        self,
        client: KubeClient,
        node: str,
        lock: NodeLock,
        store: RecordStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._node = node
        self._path = _NODES + api_path(node)
        self._lock = lock
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._renewed = clock()

    # -- the steps ------------------------------------------------------------------------------------------

    def begin(
        self, host: HostView, files: Sequence[KeptFile], terms: Terms, check_mode: bool
    ) -> tuple[Record, tuple[str, ...]]:
        """Take the lock, save what there is to save, and say what is left to do: nothing, where nothing was begun."""
        if not check_mode:
            self._lock.acquire()
        try:
            record = self._store.read()
            if record is None and terms.only_unfinished:
                if not check_mode:
                    self._lock.release()
                return Record("", self._node), ()
            node = self._client.find(self._path)
            _see_known(record, node, host)
            sets = self._daemonsets()
            record = _refreshed(record or Record(uuid.uuid4().hex, self._node), node, host, static_files(files, sets))
            view = None if node is None else view_of(node)
            steps = steps_left(record, view, host)
            said = refusals(view, host, steps, terms.fenced)
            if DRAIN in steps and not terms.delete_bare_pods:
                said += self._bare(sets)
            if said:
                raise RejoinRefused("; ".join(said))
            if not check_mode:
                self._save(record)
            if not check_mode and not steps:  # nothing more can be done without the host
                self._lock.release()
        except (RejoinRefused, ApiError):
            if not check_mode:
                self._lock.release()
            raise
        return record, steps

    def drain(self, host: HostView, timeout: float, delete_bare_pods: bool) -> list[str]:
        """Cordon the old Node and evict its pods; the evicted."""
        record = self._record()
        node = self._client.find(self._path)
        if node is None or waits_for_kubelet(record, view_of(node)):
            return []
        first = record.phase in (SAVED, DRAIN) and not host.mark  # nothing that comes after a drain was begun
        self._save(replace(record, phase=DRAIN) if first else record)
        if not view_of(node).cordoned:
            note = {"annotations": {DRAINING: record.operation}}  # so that nobody takes the cordon for a person's
            self._patch({"metadata": note, "spec": {"unschedulable": True}})
        sets = {_name(one) for one in self._daemonsets()}
        work = Drain(
            self._client,
            self._node,
            sets,
            take_bare=delete_bare_pods,
            alive=self._keep_lock,
            clock=self._clock,
            sleep=self._sleep,
        )
        left = work.run(timeout, lambda: not host.kubelet_running or not view_of(self._must_find()).spoken)
        if left:
            raise RejoinRefused(
                f"pods are still there after {timeout:g} s: {', '.join(map(str, left))}; let them end, or give "
                "more time with rejoin_drain_timeout, and run again"
            )
        if first:
            self._save(replace(record, phase=DRAINED))
        return work.evicted

    def delete(self, host: HostView, proof: Mapping[str, Any], fenced: bool, timeout: float) -> bool:
        """Delete the old Node, whose pods are known to have ended; True when there was one."""
        record = self._record()
        node = self._client.find(self._path)
        if node is None or waits_for_kubelet(record, view_of(node)):
            return False
        proven = proof.get("operation") == record.operation and proof.get("stopped") is True
        if not proven and not (fenced and not host.reachable and view_of(node).ready != "True"):
            raise RejoinRefused(
                f"nothing proves that the kubelet and the containers of {self._node} are stopped, so its Node stays, "
                "or others would start its pods a second time"
            )
        self._save(replace(record, phase="delete"))
        uid = view_of(node).uid
        try:
            self._client.delete(self._path, {"preconditions": {"uid": uid}})
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        end = self._clock() + timeout
        while (standing := self._client.find(self._path)) is not None and view_of(standing).uid == uid:
            if self._clock() >= end:
                finalizers = ", ".join(standing["metadata"].get("finalizers") or ()) or "none are named"
                raise RejoinRefused(f"the Node was deleted and is still there after {timeout:g} s; it waits for its "
                                    f"finalizers: {finalizers}")  # fmt: skip
            self._pause()
        return True

    def prepare(self, lifetime: int) -> tuple[Document, tuple[KeptFile, ...]]:
        """Make the Node, cordoned and as it was, before its kubelet comes; the way in for that, and its files."""
        record = self._record()
        server, authority = read_cluster_info(self._client)
        way = {"endpoint": endpoint_of(server), "pins": pins(authority)}
        self._save(replace(record, phase="prepare"))
        node = self._client.find(self._path)
        if node is None:
            node = self._client.post(_NODES, new_node(record), {"fieldManager": MANAGER})
        if not waits_for_kubelet(record, view_of(node)):
            raise RejoinRefused(
                "a Node of this name came back while its host was being reset: something registered it. Run again"
            )
        self._keep_lock(at_once=True)
        token = make_token(self._client, record.operation, lifetime, self._now())
        return {**way, "token": token}, record.files

    def restore(self, timeout: float) -> bool:
        """Give the joined Node what was saved; True when something had to be."""
        record = self._record()
        end = self._clock() + timeout
        while not view_of(node := self._must_find()).spoken:
            if self._clock() >= end:
                raise RejoinRefused(f"the new kubelet has not spoken to the API server within {timeout:g} s")
            self._pause()
        if record.joined_uid != view_of(node).uid:
            record = replace(record, phase="restore", joined_uid=view_of(node).uid)
            self._save(record)
        changed = self._restore_object(record)
        return self._restore_resources(record) or changed

    def finish(self, timeout: float) -> list[str]:
        """Wait until the node is as it was, let pods come, and leave nothing of ours; what the user should know."""
        record = self._record()
        self._wait_settled(record, timeout)
        drop_tokens(self._client, record.operation)
        patch = finishing(record, node := self._must_find())
        if patch:
            self._patch(patch)
        self._keep_lock(at_once=True)
        self._store.remove()
        self._lock.release()
        return _notes(record, node)

    def fail(self, reason: str) -> Record | None:
        """Leave the reason beside the saved state, take the token away, and let the next run begin at once.

        Where nothing but the drain was begun, it is undone, and no saved state is left: a cordon that stays would be
        taken for an unfinished rejoin, also when a person makes another of it. The returned phase tells.
        """
        try:
            self._lock.renew()
        except RejoinRefused:  # another run works on it by now, or none was begun
            return None
        record = self._store.read()
        if record is not None:
            record = replace(record, reason=reason)
            if self._undo_drain(record):
                self._store.remove()
                record = replace(record, phase=UNDONE)
            else:
                self._store.save(record)
                drop_tokens(self._client, record.operation)
        self._lock.release()
        return record

    # -- what they share --------------------------------------------------------------------------------------

    def _record(self) -> Record:
        self._keep_lock(at_once=True)
        record = self._store.read()
        if record is None:
            raise RejoinRefused(f"the saved state {self._store.namespace}/{self._store.name} is gone; run again")
        return record

    def _save(self, record: Record) -> None:
        self._keep_lock(at_once=True)
        self._store.save(record)

    def _patch(self, patch: Document) -> Document:
        self._keep_lock(at_once=True)
        return self._client.patch(self._path, patch, MERGE_PATCH, field_manager=MANAGER, repeat=True)

    def _keep_lock(self, at_once: bool = False) -> None:
        if at_once or self._clock() - self._renewed >= RENEWAL:
            self._lock.renew()
            self._renewed = self._clock()

    def _pause(self) -> None:
        self._sleep(PAUSE)
        self._keep_lock()

    def _must_find(self) -> Document:
        node = self._client.find(self._path)
        if node is None:
            raise RejoinRefused("its Node is gone again: somebody deleted it. Run again")
        return node

    def _daemonsets(self) -> list[Document]:
        return self._client.items(api_path("apis", "apps", "v1", "daemonsets"))

    def _bare(self, sets: Sequence[Document]) -> list[str]:
        lost = bare_pods(pods_on(self._client, self._node), {_name(one) for one in sets})
        if not lost:
            return []
        return [f"no controller would start these pods again elsewhere: {', '.join(lost)}; delete them, or say "
                "rejoin_delete_bare_pods=true"]  # fmt: skip

    def _undo_drain(self, record: Record) -> bool:
        """Let pods come again; False where more than the drain was begun, or the Node that is saved has gone."""
        node = self._client.find(self._path) if record.phase == DRAIN else None
        if node is None or view_of(node).uid != record.old_uid:
            return False
        if DRAINING in (node["metadata"].get("annotations") or {}):
            spec = {"unschedulable": True if record.cordoned else None}
            self._patch({"metadata": {"annotations": {DRAINING: None}}, "spec": spec})
        return True

    def _restore_object(self, record: Record) -> bool:
        for attempt in range(CONFLICTS):
            node = self._must_find()
            patch = restoring(record, node)
            if not patch:
                return attempt > 0
            patch.setdefault("metadata", {})["resourceVersion"] = node["metadata"]["resourceVersion"]
            try:
                self._patch(patch)
                return True
            except ApiError as error:
                if error.status != 409:
                    raise
        raise RejoinRefused("others changed its Node each time that labels and taints were to be restored; run again")

    def _restore_resources(self, record: Record) -> bool:
        if not record.resources:
            return False
        self._keep_lock(at_once=True)
        outcome = CapacityRun(self._client, _wish(record)).run({self._node: None})[0]
        if outcome.problem:
            raise RejoinRefused(f"its extended resources can't be restored: {outcome.problem}")
        return outcome.changed

    def _wait_settled(self, record: Record, timeout: float) -> None:
        end = self._clock() + timeout
        while True:
            node = self._must_find()
            why = _not_ready(node)
            if not why and record.resources:
                if make_plan(node, _wish(record)):  # the kubelet set them to zero when it registered
                    self._restore_resources(record)
                    node = self._must_find()
                why = unsettled(node, _wish(record))
            if not why:
                return
            if self._clock() >= end:
                raise RejoinRefused(f"it has joined, but is not as it was after {timeout:g} s: {why}")
            self._pause()


def _see_known(record: Record | None, node: Document | None, host: HostView) -> None:
    """RejoinRefused where nothing but the inventory tells of such a node, which may be called otherwise there."""
    if record is None and node is None and not host.reachable:
        raise RejoinRefused(f"the API knows no Node {host.node}; name that of this host with rejoin_node_name")


def _refreshed(record: Record, node: Document | None, host: HostView, files: Sequence[KeptFile]) -> Record:
    """The record with what can still be seen. Once the old Node or the host's files went, the older word counts."""
    if node is not None and (record.old_uid == view_of(node).uid or record.phase == SAVED and not record.old_uid):
        record = save_node(record, node)
    if host.reachable and host.mark != record.operation and not record.joined_uid:
        by_path = {one.path: one for one in (*record.files, *files)}
        agents = dict.fromkeys((*record.agents, *host.agents))
        flags = host.kubelet_flags or record.kubelet_flags
        record = replace(record, files=tuple(by_path.values()), agents=tuple(agents), kubelet_flags=flags)
    return record


def _wish(record: Record) -> Wish:
    return make_wish(PRESENT, record.resources)


def _not_ready(node: Mapping[str, Any]) -> str:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            if condition.get("status") == "True":
                return ""
            return f"{condition.get('reason') or 'NotReady'}: {condition.get('message') or 'its kubelet says no more'}"
    return "its kubelet has not said that it is Ready"


def _notes(record: Record, node: Mapping[str, Any]) -> list[str]:
    spec = node.get("spec") or {}
    now = tuple(spec.get("podCIDRs") or ())
    notes = []
    if record.pod_cidrs and now and record.pod_cidrs != now:
        notes.append(
            f"its pod network is {', '.join(now)} now and was {', '.join(record.pod_cidrs)}: routes, firewalls or CNI "
            "files that name the old one have to follow"
        )
    if not record.old_uid:
        notes.append("its Node was gone before, so labels, taints and resources that it had are not known")
    if record.cordoned:
        notes.append("it was cordoned before, and is again")
    return notes


def _name(daemonset: Mapping[str, Any]) -> Name:
    metadata = daemonset.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
