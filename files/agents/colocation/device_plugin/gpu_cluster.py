# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The API's side of GPUs: which pods want units, what is written into their annotations and on the Node's status.

Two threads: a watch of the node's pods, and a hand that writes. An API that does not answer holds nobody up but an
Allocate, and that for a second.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import quote

from colocation.common.events import About, Reporter, Source, node
from colocation.common.journal import Log
from colocation.common.kube_api import MERGE_PATCH, ApiError, Document, KubeApi
from colocation.common.watching import Kind, Listener, Watch
from colocation.device_plugin import COMPONENT
from colocation.device_plugin.gpu_grant import Note, notes, settled
from colocation.device_plugin.gpu_match import Key
from colocation.device_plugin.gpu_pods import Pod, read_pod

PODS = "/api/v1/pods"
PAGE = 500
STATUS_SECONDS = 30.0  # between two looks at the Node's status
RETRY_SECONDS = 5.0  # after the API refused or did not answer
MOST_EVENTS = 200  # that wait to be written
log = Log("gpu")


class PodBook(Listener):
    """The node's pods that want units, as the watch tells of them. Any thread may read `pods`."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._pods: dict[str, Pod] = {}
        self._listing: dict[str, Pod] = {}
        self._unread: set[str] = set()  # UIDs of pods that can't be read
        self._lock = threading.Lock()

    @property
    def pods(self) -> tuple[Pod, ...]:
        with self._lock:
            return tuple(self._pods.values())

    def begins(self) -> None:
        self._listing = {}

    def page(self, documents: list[Document]) -> None:
        self._listing |= {pod.uid: pod for pod in self.read(documents)}

    def listed(self) -> None:
        with self._lock:
            self._pods = self._listing
        self._listing = {}

    def happened(self, kind: str, document: Document) -> None:
        pod = self._read(document) if kind != "DELETED" else None
        uid = _uid(document)
        with self._lock:
            self._pods.pop(uid, None)
            if pod is not None:
                self._pods[uid] = pod

    def wrote(self, document: Document) -> None:
        """The API's answer to what was written; by now the watch may have told of more, or of the pod's end."""
        pod = self._read(document)
        with self._lock:
            known = self._pods.get(pod.uid) if pod else None
            if pod and known and pod.version >= known.version:
                self._pods[pod.uid] = pod

    def gone(self, uid: str) -> None:
        """The API has this pod no more."""
        with self._lock:
            self._pods.pop(uid, None)

    def read(self, documents: Iterable[Document]) -> tuple[Pod, ...]:
        return tuple(filter(None, map(self._read, documents)))

    def _read(self, document: Document) -> Pod | None:
        """One that can't be read is nobody's trouble but its own: all others still get their units."""
        try:
            return read_pod(document, self._resource)
        except Exception as problem:
            if (uid := _uid(document)) not in self._unread:
                self._unread.add(uid)
                log.error("a pod can't be read, so it is left out", uid=uid, why=repr(problem))
            return None


def _uid(document: Document) -> str:
    return str((document.get("metadata") or {}).get("uid", ""))


class GpuCluster:
    """`start` and `stop` are called from one thread, the rest from any."""

    def __init__(self, api: KubeApi, quick: KubeApi, node_name: str, resource: str) -> None:
        self.book = PodBook(resource)
        self.problem = ""
        self.noted = 0  # annotations of pods that were written
        self._api, self._quick, self._node = api, quick, node_name
        self._selector = f"spec.nodeName={node_name}"
        self._watch = Watch(api, Kind("pods", PODS, PAGE, self._selector), self.book)
        self._reporter = Reporter(api, Source(COMPONENT, node_name))
        self._recorded: Mapping[Key, Sequence[str]] = {}
        self._left: set[str] = set()  # UIDs of pods whose former choice another one has
        self._doubted: set[str] = set()  # UIDs of pods that the API refused as if they were no more
        self._counts: Mapping[str, str] = {}
        self._counts_at = self._rest_until = float("-inf")
        self._events: list[tuple[About, str, str]] = []
        self._lock = threading.Lock()
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-work", daemon=True)

    def start(self) -> None:
        self._watch.start()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._woken.set()
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join(3.0)

    @property
    def problems(self) -> tuple[str, ...]:
        watch = self._watch.health.problem
        return tuple(filter(None, (f"pods can't be watched: {watch}" if watch else "", self.problem)))

    def pods_now(self) -> tuple[Pod, ...]:
        """The pods as the API has them at this moment, or ApiError. The kubelet can't know of more."""
        answer = self._quick.get(PODS, fieldSelector=self._selector)
        return self.book.read(item for item in answer.get("items") or () if isinstance(item, dict))

    def settled(self, pods: Collection[Pod]) -> tuple[Pod, ...]:
        """These pods as they will be when what is to be written is written."""
        return settled(pods, self._recorded, self._left)

    def record(self, recorded: Mapping[Key, Sequence[str]]) -> None:
        """What the kubelet recorded: the GPUs' UUIDs by container."""
        self._recorded = recorded
        self._woken.set()

    def count(self, counts: Mapping[str, str]) -> None:
        """What the Node's status should say of how many GPUs there are."""
        if counts != self._counts:
            self._counts, self._counts_at = dict(counts), float("-inf")
            self._woken.set()

    def look_again(self) -> None:
        """The kubelet may have dropped what it does not know from the Node's status."""
        self._counts_at = float("-inf")
        self._woken.set()

    def tell(self, about: About | None, reason: str, message: str) -> None:
        """An event on a pod, or on the Node."""
        with self._lock:
            if len(self._events) < MOST_EVENTS:
                self._events.append((about or node(self._node), reason, message))
        self._woken.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.wait(1.0)
            self._woken.clear()
            try:
                self.work(time.monotonic())
            except ApiError as problem:
                self._refused(str(problem))
            except Exception as problem:
                log.exception("what is to be written failed")
                self._refused(str(problem))

    def _refused(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("the API did not take what was to be written", why=problem)
        self.problem = problem
        self._rest_until = time.monotonic() + RETRY_SECONDS

    def work(self, now: float) -> None:
        """Write what is to be written; ApiError where the API does not take it."""
        if now < self._rest_until:
            return
        refused: ApiError | None = None
        pods = self.book.pods
        there = {pod.uid for pod in pods}
        self._left, self._doubted = self._left & there, self._doubted & there
        for note in tuple(notes(pods, self._recorded, self._left)):
            if self._ended.is_set():
                return
            try:
                self._write(note)
            except ApiError as problem:
                if not problem.status:
                    raise  # nobody answers, so nobody would the next one
                refused = problem
        if now - self._counts_at >= STATUS_SECONDS:
            self._keep_counts()
            self._counts_at = now
        self._write_events()
        if refused:
            raise refused
        self.problem = ""

    def _write(self, note: Note) -> None:
        pod = note.pod
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/status"
        patch = {"metadata": {"uid": pod.uid, "annotations": dict(note.annotations)}}
        try:
            self.book.wrote(self._api.patch(path, patch, MERGE_PATCH))
        except ApiError as problem:
            if problem.status == 404:
                self.book.gone(pod.uid)
            elif problem.status in (409, 422) and pod.uid not in self._doubted:
                self._doubted.add(pod.uid)  # another one has its name, as the watch will tell
            else:
                raise
            log.debug("a pod is no more", pod=pod.title, why=str(problem))
            return
        self._doubted.discard(pod.uid)
        self._left.discard(pod.uid)
        self._left |= {note.of} if note.of else set()
        self.noted += 1
        log.info("annotated", pod=pod.title, **{key.lower(): text for key, text in note.annotations.items()})

    def _keep_counts(self) -> None:
        if not self._counts:
            return
        path = f"/api/v1/nodes/{quote(self._node, safe='')}"
        capacity = (self._api.get(path).get("status") or {}).get("capacity") or {}
        if any(str(capacity.get(resource)) != count for resource, count in self._counts.items()):
            counts = dict(self._counts)
            self._api.patch(f"{path}/status", {"status": {"capacity": counts, "allocatable": counts}})
            log.info("wrote on the Node's status", **{name.rpartition("/")[2]: count for name, count in counts.items()})

    def _write_events(self) -> None:
        with self._lock:
            events, self._events = self._events, []
        for about, reason, message in events:
            now = datetime.datetime.now(datetime.timezone.utc)
            if why := self._reporter.say(about, reason, message, now):
                log.warning("an event could not be written", about=about.name, reason=reason, why=why)
