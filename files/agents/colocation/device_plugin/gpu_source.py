# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The source of GPU memory: what was seen of the GPUs becomes devices, what the kubelet asks is answered by the cores.

All that is remembered here are guesses (`_taken`) that make better guesses. What is true stands in the device IDs, in
the kubelet's record and in the API, so nothing is lost with this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace

from colocation.common.events import About
from colocation.common.journal import Log
from colocation.common.kube_api import ApiError
from colocation.device_plugin import gpu_choice, gpus
from colocation.device_plugin.devices import Device, Grant, NotReady, Options, Refused, Source
from colocation.device_plugin.gpu_choice import Request
from colocation.device_plugin.gpu_cluster import GpuCluster
from colocation.device_plugin.gpu_config import GpuMemory
from colocation.device_plugin.gpu_grant import by_container, grant
from colocation.device_plugin.gpu_match import Candidate, Key, booked, candidates, match, planned
from colocation.device_plugin.gpu_pods import Pod
from colocation.device_plugin.gpu_status import GpuMetrics
from colocation.device_plugin.gpu_watcher import GONE, GpuWatcher, Look
from colocation.device_plugin.gpus import Catalog, Gpu
from colocation.device_plugin.holders import Held

Recorded = Callable[[], Iterable[Held]]
ILL, WELL, TOO_LARGE = "ColocationGpuIll", "ColocationGpuWell", "ColocationGpuRequestTooLarge"
LEFT_OUT = "ColocationGpuNotOffered"
log = Log("gpu")


@dataclass(frozen=True, slots=True)
class Truth:
    """What the kubelet recorded, as it was last read."""

    served: frozenset[Key] = frozenset()  # containers by their pod's UID; a namesake may be another pod
    ids: frozenset[str] = frozenset()


def truth(holders: Iterable[Held]) -> Truth:
    listed = tuple(holders)
    return Truth(
        frozenset((held.uid, held.container) for held in listed if held.uid),
        frozenset(id for held in listed for id in held.ids),
    )


class GpuSource(Source):
    """`devices` and `refresh` are called from the agent's thread, `prefer` and `grant` from the server's."""

    options = Options(prefers=True)

    def __init__(
        self,
        resource: str,
        settings: GpuMemory,
        metrics: GpuMetrics,
        watcher: GpuWatcher,
        cluster: GpuCluster | None,
        recorded: Recorded,
    ) -> None:
        self.resource = resource
        self.settings = settings
        self.watcher = watcher
        self.cluster = cluster
        self.holders: tuple[Held, ...] = ()
        self.catalog: Catalog | None = None
        self.complaint = ""  # why the GPUs as they are now can't be offered
        self._look: Look | None = None  # that the catalog is of
        self._metrics = metrics
        self._recorded = recorded
        self._truth = Truth()
        self._taken: dict[Key, frozenset[str]] = {}
        self._list: tuple[Device, ...] = ()
        self._offer: tuple[Device, ...] = ()  # the list without units that are no more
        self._ids: frozenset[str] = frozenset()  # of these
        self._lost: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def begin(self) -> None:
        self.watcher.start()
        if self.cluster is not None:
            self.cluster.start()

    def end(self) -> None:
        self.watcher.stop()
        if self.cluster is not None:
            self.cluster.stop()
        self._metrics.forget(keep=set())

    # What the framework asks.

    def devices(self, held: Set[str]) -> tuple[Device, ...]:
        look = self.watcher.look
        if look is None:
            raise NotReady(self.watcher.problem)
        if look is not self._look:
            self._take(look)
            self._look = look
        self._keep(held)
        return self._list

    def _take(self, look: Look) -> None:
        """Offer what is seen now. If that can't be, what was offered stays, but not its health."""
        catalog = Catalog(look.gpus, self.settings.unit_mib)
        self.complaint = gpus.complaint(catalog, self.settings.allow_multi_gpu)
        if self.complaint:
            if self.catalog is None:
                raise NotReady(self.complaint)
            ill = {gpu.uuid: gpu.ill for gpu in look.gpus}
            kept = tuple(replace(gpu, ill=ill.get(gpu.uuid, GONE)) for gpu in self.catalog.gpus)
            catalog = Catalog(kept, self.settings.unit_mib)
        self._tell_health(self.catalog, catalog, look)
        self._offer = self._list = catalog.devices(self.settings.topology_hints)
        self._ids = frozenset(device.id for device in self._offer)
        self.catalog, self._lost = catalog, ()

    def _keep(self, held: Set[str]) -> None:
        """Units of a GPU that is no more stay on the list while they are held, and nobody else may have them."""
        lost = tuple(sorted(held - self._ids))
        if lost != self._lost:
            self._list = (*(Device(id, healthy=False) for id in lost), *self._offer)
            self._lost = lost

    def larger_unit(self, factor: int) -> str:
        memories = [gpu.memory_mib for gpu in self.catalog.gpus] if self.catalog else []
        return f"set unit_mib to {gpus.least_unit(memories, self.settings.allow_multi_gpu)} or more, on all nodes"

    def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        began = time.perf_counter()
        catalog = self._offered()
        self._drop(set(available).difference(must))
        asking, kept = self._planned(size)
        found = [one for one in asking if one.doubts == asking[0].doubts]
        if never := gpu_choice.too_large(catalog, size, self.settings.allow_multi_gpu):
            self._tell_too_large(found, never)
            raise Refused(never)
        wishes = tuple(one.pod.wish for one in found if one.pod.wish)
        peaks = tuple({one.ahead for one in asking if one.want.passing})  # room for whichever it is
        request = Request(size, tuple(must), wishes, peaks, kept, self.settings.allow_multi_gpu)
        chosen = gpu_choice.choose(catalog, available, request)
        self._metrics.answer.observe(time.perf_counter() - began, call="prefer")
        return chosen

    def grant(self, ids: Sequence[str]) -> Grant:
        began = time.perf_counter()
        catalog = self._offered()
        own = catalog.of(ids)
        try:
            self._check(own, ids)
            total = self._match(own, ids)
        except Refused:
            self._metrics.matches.add(how="refused")
            raise
        self._metrics.answer.observe(time.perf_counter() - began, call="allocate")
        return grant(catalog, own, len(ids), total, self.settings.cdi_kind)

    # What the agent does.

    def refresh(self, holders: Sequence[Held]) -> None:
        """Take what is known of who holds what."""
        self.holders = tuple(holders)
        self._learn(self.holders)
        catalog = self.catalog
        if catalog is None:
            return
        self._metrics.show(catalog, holders)
        if self.cluster is not None:
            self.cluster.count(self._counts(catalog))

    # How it is done.

    def _offered(self) -> Catalog:
        if self.catalog is None:
            raise Refused(f"{self.resource} is not offered: {self.complaint or self.watcher.problem}")
        return self.catalog

    def _check(self, own: Sequence[Gpu], ids: Sequence[str]) -> None:
        """That these devices may be given away together, and now."""
        if len(own) > 1 and not self.settings.allow_multi_gpu:
            listed = ", ".join(gpu.uuid for gpu in own)
            raise Refused(
                f"{len(ids)} units are of several GPUs ({listed}), and a container gets units of one GPU only"
            )
        for gpu in own:
            if gpu.ill:
                raise Refused(f"{gpu.uuid} is ill: {gpu.ill}")

    def _drop(self, free: Set[str]) -> None:
        """What the kubelet has free again it took from whom it was given to: he failed."""
        with self._lock:
            self._taken = {key: ids for key, ids in self._taken.items() if ids.isdisjoint(free)}

    def _planned(self, units: int) -> tuple[list[Candidate], dict[str, int]]:
        """Who may be asking, in the order of the plan, and what the plan has for all who wait."""
        if self.cluster is None:
            return [], {}
        pods = self.cluster.settled(self.cluster.book.pods)
        found = self._candidates(pods, units)
        if not found:
            try:
                pods = self.cluster.settled(self.cluster.pods_now())
                found = self._candidates(pods, units)
            except ApiError as problem:
                log.warning("pods are not known, so the tightest GPU is taken", why=str(problem))
        return planned(found), booked(pods, *self._known())

    def _match(self, own: Sequence[Gpu], ids: Sequence[str]) -> int | None:
        """Find whom these devices are for, and remember it; the units of his pod if that is certain. Refused if the API
        knows of nobody."""
        if self.cluster is None:
            return None
        certain = True
        try:
            pods = self.cluster.pods_now()
        except ApiError as problem:
            log.warning("the API does not tell which pods wait; what was last heard is taken", why=str(problem))
            pods, certain = self.cluster.book.pods, False
        found = self._candidates(self.cluster.settled(pods), len(ids))
        if len({one.pod.total for one in found}) > 1:
            self._learn(tuple(self._recorded()))
            found = self._candidates(self.cluster.settled(pods), len(ids))
        if not found and not certain:
            self._metrics.matches.add(how="unplanned")
            return None  # the watch may not have told of him yet, and the kubelet asks but once
        chosen = match(found, {gpu.uuid for gpu in own}, len(ids), self.resource)
        with self._lock:
            there = {pod.uid for pod in pods}
            self._taken = {key: units for key, units in self._taken.items() if key[0] in there}
            self._taken[chosen.candidate.key] = frozenset(ids)
        wish = chosen.candidate.pod.wish
        self._metrics.matches.add(how="swapped" if chosen.swapped else "planned" if wish else "unplanned")
        log.debug("matched", pod=chosen.candidate.pod.title, container=chosen.candidate.want.container)
        return chosen.total if certain else None

    def _candidates(self, pods: Sequence[Pod], units: int) -> list[Candidate]:
        return candidates(pods, *self._known(), units)

    def _known(self) -> tuple[frozenset[Key], set[Key]]:
        """Containers that have theirs by the kubelet's record, and those that were matched since it was read."""
        with self._lock:
            known = self._truth
            return known.served, {key for key, ids in self._taken.items() if not ids & known.ids}

    def _learn(self, holders: Sequence[Held]) -> None:
        """What the kubelet recorded."""
        with self._lock:
            self._truth = truth(holders)
        catalog = self.catalog
        if self.cluster is not None and catalog is not None:
            held = (((one.uid, one.container), one.ids) for one in holders if one.uid)
            self.cluster.record(by_container(catalog, held))

    def _counts(self, catalog: Catalog) -> dict[str, str]:
        """What the Node's status says of GPUs that are well."""
        well = sum(not gpu.ill for gpu in catalog.gpus)
        named = ((self.settings.count_resource, well), (self.settings.core_resource, 100 * well))
        return {resource: str(count) for resource, count in named if resource}

    def _tell_health(self, before: Catalog | None, now: Catalog, look: Look) -> None:
        if self.cluster is None:
            return
        known = {gpu.uuid: gpu.ill for gpu in before.gpus} if before else {}
        told = self._look.left_out if self._look else ()
        fresh = [why for why in look.left_out if why not in told]
        gone = sorted(known.keys() - {gpu.uuid for gpu in now.gpus})  # what only vanishes stays, and ill
        fresh += [f"{uuid}, as MIG was turned on or off" for uuid in gone if not any(uuid in why for why in fresh)]
        if fresh:
            self.cluster.tell(None, LEFT_OUT, f"Not offered: {'; '.join(fresh)}.")
        for gpu in now.gpus:
            if gpu.ill and not known.get(gpu.uuid):
                self.cluster.tell(None, ILL, f"GPU {gpu.uuid} is ill: {gpu.ill}. Its pods keep running.")
            elif known.get(gpu.uuid) and not gpu.ill:
                self.cluster.tell(None, WELL, f"GPU {gpu.uuid} is well again.")

    def _tell_too_large(self, found: Sequence[Candidate], why: str) -> None:
        if self.cluster is not None and found:
            pod = found[0].pod
            self.cluster.tell(About("Pod", pod.name, pod.uid, pod.namespace), TOO_LARGE, f"{why}.")
