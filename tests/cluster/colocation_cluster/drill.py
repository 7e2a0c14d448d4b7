# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A fault drill: random blows on a cluster while its pods come and go.

The plan is made of a seed before anything is struck, so a drill can be had again. A node suffers one blow at a time,
nodes suffer at the same time, and begin at different kinds, so that a short drill has as many kinds as it can. Blows
that a node does not get over by itself come last and once for each node: what brings them back (`repair.yml`) is what
comes after the drill.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .cluster import Cluster
from .say import ClusterError

CONTROL_PLANE = "control plane"
API_SERVER = "kube-apiserver"
# They end when they can't renew their lease, as kubeadm has them run. Here they have none, and a controller manager
# that outlives many API servers may see no more of what happens (1.36).
LEASED = ("kube-controller-manager", "kube-scheduler")
BETWEEN = (3.0, 15.0)  # seconds from the end of a blow to the next in the same place
CHURN_SECONDS = 3.0
CHURNED = 0.1  # so many of the pods that could have been deleted must have been
PATIENCE = 90.0  # what is to be killed may be starting, after the blow before this one
AGAIN_SECONDS = 1.0
Strike = Callable[[Cluster, str], None]


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to a place; `lasts` names the seconds, at the least and at the most, until it is taken back.

    To `relieve` is to take it back, or to see that the place got over it, for which the plan leaves `needs` seconds.
    """

    name: str
    strike: Strike
    relieve: Strike | None = None
    lasts: tuple[float, float] = (0.0, 0.0)
    needs: float = 0.0


@dataclass(frozen=True, slots=True, order=True)
class Planned:
    """A blow at a time, in seconds from the beginning."""

    at: float
    place: str
    blow: str
    lasting: float


def _on_node(command: str) -> Strike:
    def run(cluster: Cluster, node: str) -> None:
        cluster.ssh(node, command, limit=60)

    return run


def _reset(cluster: Cluster, node: str) -> None:
    """As when the power goes: nothing is written, nothing is ended."""
    cluster.machine(node).monitor("system_reset")


def _link(state: str) -> Strike:
    def turn(cluster: Cluster, node: str) -> None:
        cluster.world.run(["ip", "link", "set", f"tap{cluster.machine(node).index}", state], f"{node}'s link {state}")

    return turn


def _kill_api_server(cluster: Cluster, _place: str) -> None:
    for name in (API_SERVER, *LEASED):
        cluster.world.ask({"signal": {"name": name, "number": int(signal.SIGKILL)}})


def _start_api_server(cluster: Cluster, place: str) -> None:
    _again(cluster, API_SERVER)
    _surely(_api_is_ready, cluster, place, PATIENCE)
    for name in LEASED:
        _again(cluster, name)


def _again(cluster: Cluster, process: str) -> None:
    why = str(cluster.world.ask({"again": {"name": process}}).get("error", ""))
    if why and not why.endswith("runs already"):  # by an earlier try
        raise ClusterError(why)


def _api_is_ready(cluster: Cluster, _place: str) -> None:
    cluster.kubectl("get", "--raw", "/readyz")


def _kill(unit: str) -> Strike:
    """The unit's own process; in containerd's group there are also the shims, and with them all pods."""
    return _on_node(f"systemctl -q is-active {unit} && systemctl kill --kill-whom=main --signal=KILL {unit}")


# All that is free, also what is kept for root: the kubelet, containerd and the agents are root. It is full when root
# can't write a letter.
FILL = "fallocate -l $(($(stat -f -c '%f*%S' /))) /var/tmp/drill.$$; ! echo full > /var/tmp/drill.letter.$$"

EXTENDER = "^[^ ]*python3? -EsB /opt/colocation/extender"  # in a container; where it is restarted this is tried again

PASSING = {
    blow.name: blow
    for blow in (
        Blow("the device plugin is killed", _kill("colocation-device-plugin.service")),
        Blow("the CRI proxy is killed", _kill("cri-resource-manager.service")),
        Blow("the kubelet is killed", _kill("kubelet.service")),
        Blow("containerd is killed", _kill("containerd.service")),
        Blow("the scheduler's extender is killed", _on_node(f"pkill -KILL -f '{EXTENDER}'")),
        Blow("the machine is reset", _reset, _on_node("true"), needs=50.0),
        Blow("the disk is full", _on_node(FILL), _on_node("rm -f /var/tmp/drill.*"), (5.0, 20.0)),
        Blow("the network is cut", _link("down"), _link("up"), (5.0, 40.0)),
    )
}
ON_CONTROL_PLANE = Blow("the API server is killed", _kill_api_server, _start_api_server, (2.0, 20.0), needs=40.0)
LASTING = {
    blow.name: blow
    for blow in (
        Blow("the kubelet is stopped and disabled", _on_node("systemctl disable --now kubelet.service")),
        Blow("containerd is stopped and masked",
             _on_node("systemctl stop containerd.service && systemctl mask containerd.service")),
        Blow("swap is on", _on_node("fallocate -l 64M /swapfile && chmod 600 /swapfile && mkswap -q /swapfile && "
                                    "swapon /swapfile && echo '/swapfile none swap sw 0 0' >> /etc/fstab")),
    )
}  # fmt: skip
BLOWS = {**PASSING, ON_CONTROL_PLANE.name: ON_CONTROL_PLANE, **LASTING}


def plan(seed: int, seconds: float, nodes: tuple[str, ...]) -> list[Planned]:
    """What happens when, and where; all that is taken back is taken back before the end."""
    dice = random.Random(seed)
    kinds = dice.sample(sorted(PASSING), len(PASSING))
    planned = list(_of_place(dice, CONTROL_PLANE, seconds, [ON_CONTROL_PLANE.name]))
    for index, node in enumerate(nodes):
        begin = index * len(kinds) // len(nodes)
        planned += _of_place(dice, node, seconds, kinds[begin:] + kinds[:begin])
    last = dice.sample(sorted(LASTING), len(LASTING))
    planned += [Planned(seconds, node, last[index % len(last)], 0.0) for index, node in enumerate(nodes)]
    return sorted(planned)


def _of_place(dice: random.Random, place: str, seconds: float, kinds: list[str]) -> Iterator[Planned]:
    """Every kind once before one comes again, in the order of `kinds` at first."""
    at = dice.uniform(*BETWEEN)
    left: list[str] = kinds[::-1]
    while True:
        left = left or dice.sample(kinds, len(kinds))
        blow = BLOWS[left.pop()]
        lasting = dice.uniform(*blow.lasts)
        if at + lasting + blow.needs >= seconds:
            return
        yield Planned(at, place, blow.name, lasting)
        at += lasting + blow.needs + dice.uniform(*BETWEEN)


def _tell(line: str) -> None:
    print(line, flush=True)


@dataclass(slots=True)
class Count:
    """What came of the plan, by kind of blow, and of the pods that were deleted meanwhile."""

    seconds: float = 0.0
    planned: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    deleted: int = 0
    errors: list[str] = field(default_factory=list)  # what ended a place's blows, or the churn, too early

    def lines(self) -> list[str]:
        """How many of each kind reached their place."""
        return [f"{self.struck[kind]} of {self.planned[kind]}: {kind}" for kind in sorted(self.planned)]

    def failures(self) -> list[str]:
        """Why this drill says less than it was to say."""
        never = [f"not struck once: {kind}" for kind in sorted(self.planned) if not self.struck[kind]]
        few = self.deleted < CHURNED * self.seconds / CHURN_SECONDS
        return [*self.errors, *never, *([f"only {self.deleted} pods deleted in {self.seconds:g} s"] if few else [])]


def drill(cluster: Cluster, seed: int, seconds: float, selector: str, namespace: str) -> Count:
    """Strike by the plan, each place in a thread of its own, and delete a pod of `selector` every few seconds."""
    over = threading.Event()
    planned = plan(seed, seconds, cluster.spec.names())
    count = Count(seconds, Counter(each.blow for each in planned))
    began = time.monotonic()
    places = sorted({each.place for each in planned})
    each_place = [[each for each in planned if each.place == place] for place in places]
    threads = [_thread(count, _suffer, cluster, blows, began, count) for blows in each_place]
    churn = _thread(count, _churn, cluster, random.Random(seed), selector, namespace, over, count)
    for thread in (*threads, churn):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    churn.join()
    return count


def _thread(count: Count, target: Callable[..., None], *arguments: Any) -> threading.Thread:
    """A thread whose error is one of the drill."""

    def guarded() -> None:
        try:
            target(*arguments)
        except Exception as error:
            count.errors.append(f"{type(error).__name__}: {error}")
            _tell(f"no further here: {count.errors[-1]}")

    return threading.Thread(target=guarded)


def _suffer(cluster: Cluster, planned: list[Planned], began: float, count: Count) -> None:
    """The blows of one place. A blow that can't be struck is told and counted; one that can't be taken back, or is not
    got over, ends them, for the next ones would say nothing.
    """
    for each in planned:
        time.sleep(max(0.0, began + each.at - time.monotonic()))  # the plan's pace, not a wait for anything
        blow = BLOWS[each.blow]
        told = f"{time.monotonic() - began:6.1f} s  {each.place}: {blow.name}"
        try:
            _surely(blow.strike, cluster, each.place, 300.0 if each.blow in LASTING else PATIENCE)
        except ClusterError as error:
            _tell(f"{told}: not struck: {str(error).splitlines()[0]}")
            if blow.relieve:
                _surely(blow.relieve, cluster, each.place)  # it may have been done by half
            continue
        count.struck[each.blow] += 1
        _tell(told + (f" for {each.lasting:.0f} s" if each.lasting else ""))
        if blow.relieve:
            time.sleep(each.lasting)  # that is how long the blow lasts
            _surely(blow.relieve, cluster, each.place)


def _surely(strike: Strike, cluster: Cluster, place: str, limit: float = 300.0) -> None:
    """Try until it is done: a machine may be starting."""
    ends = time.monotonic() + limit
    while True:
        try:
            return strike(cluster, place)
        except ClusterError:
            if time.monotonic() > ends:
                raise
            time.sleep(AGAIN_SECONDS)


def _churn(
    cluster: Cluster, dice: random.Random, selector: str, namespace: str, over: threading.Event, count: Count
) -> None:
    """Delete a pod after the other; whoever made it makes another."""
    words = ("--namespace", namespace)
    while not over.wait(CHURN_SECONDS):
        try:
            found = json.loads(cluster.kubectl("get", "pods", *words, "--selector", selector, "-o", "json"))
            names = [item["metadata"]["name"] for item in found["items"] if "deletionTimestamp" not in item["metadata"]]
            if names:
                cluster.kubectl("delete", "pod", *words, "--wait=false", dice.choice(sorted(names)))
                count.deleted += 1
        except ClusterError:
            continue  # the API server is one of those that are struck
