# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Holds the books against what is: the runtime's list and the cpusets in force.

A round lists, forgets what ended unseen, adopts what runs unbooked, and mends cpusets that are not what they ought to
be: because nobody placed the container yet, because a place changed with another container, or because systemd dropped
what the kubelet had not asked for. A container whose cpuset can't be mended is tried more and more rarely.

A container that ends by itself loses its cgroup at once, so a look for the cgroups tells between the rounds that it is
time for one. The runtime's own events would tell it too, but containerd before 2.0 gives each to one listener only, and
the kubelet may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from colocation.common.journal import Log
from colocation.cri_proxy.bookkeeping import Found
from colocation.cri_proxy.calls import Pod, Resources
from colocation.cri_proxy.cgroups import Cgroups
from colocation.cri_proxy.cpus import show
from colocation.cri_proxy.ledger import Who
from colocation.cri_proxy.policy import PENDING, PlacementPolicy, Target
from colocation.cri_proxy.runtime import NOT_FOUND, Container, Runtime, RuntimeFailed
from colocation.cri_proxy.state import State
from colocation.cri_proxy.wishes import Said

MOST_WAIT = 30  # rounds until a container that could not be mended is tried again
MOST_ASKED = 3  # rounds in which the runtime is asked for a container whose cgroup has gone, before the usual next one
log = Log("truth")


@dataclass(frozen=True, slots=True)
class Round:
    """What a round found and did."""

    running: int = 0
    found: int = 0  # of these, whose cgroups were found
    forgotten: int = 0
    adopted: int = 0
    mended: int = 0
    wrong: tuple[str, ...] = ()  # containers whose cpuset could not be mended


class Truth:
    """Rounds; called from one thread."""

    def __init__(self, policy: PlacementPolicy, runtime: Runtime, cgroups: Cgroups, hints: State) -> None:
        self._policy = policy
        self._runtime = runtime
        self._cgroups = cgroups
        self._hints = hints
        self._foreign: set[str] = set()  # containers that are not ours to place
        self._patience: dict[str, tuple[int, int]] = {}  # rounds to wait, and how many it were the last time
        self._places: dict[str, str] = {}  # the cgroups of booked containers, as last seen
        self._suspects: dict[str, int] = {}  # containers without their cgroup, and how often we will ask for them

    def reconsider(self) -> None:
        """The configuration changed: look at every container again."""
        self._foreign.clear()
        self._patience.clear()

    def ended(self) -> bool:
        """Whether a container seems to have ended since the last look; a round would tell."""
        booked = {key for key, _entry, _cpus in self._policy.entries() if not key.startswith(PENDING)}
        if booked - self._places.keys() - self._suspects.keys():  # new ones
            self._places.update(self._cgroups.containers())
        self._places = {key: place for key, place in self._places.items() if key in booked}
        for key in [key for key, place in self._places.items() if not self._cgroups.exists(place)]:
            del self._places[key]
            self._suspects[key] = MOST_ASKED
        self._suspects = {key: left - 1 for key, left in self._suspects.items() if key in booked and left >= 0}
        return any(left >= 0 for left in self._suspects.values())

    def round(self, alive: Callable[[], None]) -> Round:
        """List, forget, adopt, mend; RuntimeFailed where the runtime does not answer."""
        unheard = self._policy.unheard()
        known = {target.key for target in self._policy.targets()}
        sandboxes = self._runtime.sandboxes()
        running = {one.id: one for one in self._runtime.containers() if one.alive}
        alive()
        gone = known - set(running)
        forgotten = self._policy.forget([*gone, *unheard])
        self._policy.freed(gone)
        places = self._cgroups.containers()
        adopted = self._adopt(running, sandboxes, places, alive)
        mended, wrong = self._mend(self._policy.targets(), places, alive)
        return Round(len(running), len(set(running) & set(places)), forgotten, adopted, mended, wrong)

    def mend(self, alive: Callable[[], None]) -> Round:
        """Only hold the cpusets against the books."""
        mended, wrong = self._mend(self._policy.targets(), self._cgroups.containers(), alive)
        return Round(mended=mended, wrong=wrong)

    def _adopt(
        self,
        running: Mapping[str, Container],
        sandboxes: Mapping[str, Pod],
        places: Mapping[str, str],
        alive: Callable[[], None],
    ) -> int:
        self._foreign &= set(running)
        booked = {key for key, _entry, _cpus in self._policy.entries()}
        found = {}
        for key in set(running) - booked - self._foreign:
            one = running[key]
            cgroup = places.get(key, "")
            if one.sandbox in sandboxes and cgroup:
                pod = replace(sandboxes[one.sandbox], cgroup_parent=cgroup.removeprefix(self._cgroups.root))
                found[key] = self._found(one, pod, self._cgroups.effective(cgroup) or 0)
                alive()
        ours = self._policy.adopt(found)
        self._foreign |= set(found) - set(ours)
        if ours:
            log.info("adopted containers that run", count=len(ours))
        return len(ours)

    def _found(self, one: Container, pod: Pod, cpus: int) -> Found:
        hint = self._hints.records.get(one.id)
        try:
            resources = self._runtime.resources(one.id)
        except RuntimeFailed as problem:
            log.debug("no resources told", container=one.id, why=problem)
            resources = None
        if resources is None:
            resources = hint.resources if hint is not None else Resources()
        environment = hint.environment if hint is not None else {}
        who = Who(one.sandbox, pod.uid, pod.namespace, pod.name, one.name, one.attempt)
        said = Said(pod, one.name, replace(resources, cpuset_cpus="", cpuset_mems=""), one.annotations, environment)
        if hint is None:
            return Found(who, said, cpus)
        return Found(who, said, cpus, hint.choice, hint.mems)

    def _mend(
        self, targets: Iterable[Target], places: Mapping[str, str], alive: Callable[[], None]
    ) -> tuple[int, tuple[str, ...]]:
        mended, wrong, right = 0, list[str](), list[str]()
        for target in targets:
            cgroup = places.get(target.key)
            effective = self._cgroups.effective(cgroup) if cgroup else None
            if effective is None:
                continue  # it has not begun, or has ended
            nodes = self._cgroups.memory_nodes(cgroup) if cgroup and target.mems else None
            right_memory = nodes is None or nodes == target.mems
            if effective == target.cpus and right_memory:
                self._patience.pop(target.key, None)
                right.append(target.key)
            elif self._may_try(target.key):
                alive()
                mended += self._set(target, effective)
            elif right_memory:
                wrong.append(f"{target.name} runs on CPUs {show(effective)}, not {show(target.cpus)}")
            else:
                wrong.append(f"{target.name} has memory of NUMA {show(nodes or 0)}, not {show(target.mems)}")
        self._policy.freed(right)
        return mended, tuple(wrong)

    def _may_try(self, key: str) -> bool:
        """Whether it is this container's turn; the first time it is."""
        wait, last = self._patience.get(key, (0, 0))
        if wait > 0:
            self._patience[key] = (wait - 1, last)
            return False
        again = min(MOST_WAIT, last * 2 + 1)
        self._patience[key] = (again, again)
        return True

    def _set(self, target: Target, effective: int) -> bool:
        try:
            self._runtime.set_cpus(target.key, show(target.cpus), show(target.mems))
        except RuntimeFailed as problem:
            if problem.status != NOT_FOUND:
                log.warning("a cpuset could not be set", container=target.name, why=problem)
            return False
        log.info("cpuset set", container=target.name, was=show(effective), now=show(target.cpus))
        return True
