# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A fault drill: random blows on a cluster while its pods come and go.

The plan is made of a seed before anything is struck, so a drill can be had again. A node suffers one blow at a time,
nodes suffer at the same time. Blows that a node does not get over by itself come last and once for each node: what
brings them back (`repair.yml`) is what comes after the drill.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .cluster import Cluster
from .say import ClusterError

CONTROL_PLANE = "control plane"
BETWEEN = (3.0, 15.0)  # seconds from the end of a blow to the next in the same place
CHURN_SECONDS = 3.0
Strike = Callable[[Cluster, str], None]


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to a place; `lasts` names the seconds, at the least and at the most, until it is taken back."""

    name: str
    strike: Strike
    relieve: Strike | None = None
    lasts: tuple[float, float] = (0.0, 0.0)


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
    cluster.world.ask({"signal": {"name": "kube-apiserver", "number": int(signal.SIGKILL)}})


def _start_api_server(cluster: Cluster, _place: str) -> None:
    reply = cluster.world.ask({"again": {"name": "kube-apiserver"}})
    if "error" in reply:
        raise ClusterError(str(reply["error"]))


def _kill(unit: str) -> Strike:
    """Without a unit there is nothing to kill; a part that is off is no failure of the drill."""
    return _on_node(f"! systemctl -q is-active {unit} || systemctl kill --signal=KILL {unit}")


FILL = "fallocate -l $(($(df --output=avail -B1 / | tail -n 1) - 4096)) /var/tmp/drill || true"

PASSING = {
    blow.name: blow
    for blow in (
        Blow("the device plugin is killed", _kill("colocation-device-plugin.service")),
        Blow("the CRI proxy is killed", _kill("cri-resource-manager.service")),
        Blow("the kubelet is killed", _kill("kubelet.service")),
        Blow("containerd is killed", _kill("containerd.service")),
        Blow("the machine is reset", _reset),
        Blow("the disk is full", _on_node(FILL), _on_node("rm -f /var/tmp/drill"), (5.0, 20.0)),
        Blow("the network is cut", _link("down"), _link("up"), (5.0, 40.0)),
    )
}
ON_CONTROL_PLANE = Blow("the API server is killed", _kill_api_server, _start_api_server, (2.0, 20.0))
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
    planned = [each for place in (*nodes, CONTROL_PLANE) for each in _of_place(dice, place, seconds)]
    last = dice.sample(sorted(LASTING), len(LASTING))
    planned += [Planned(seconds, node, last[index % len(last)], 0.0) for index, node in enumerate(nodes)]
    return sorted(planned)


def _of_place(dice: random.Random, place: str, seconds: float) -> Iterator[Planned]:
    at = dice.uniform(*BETWEEN)
    left: list[str] = []
    while True:
        left = left or dice.sample(sorted(PASSING), len(PASSING))  # every kind once before one comes again
        blow = ON_CONTROL_PLANE if place == CONTROL_PLANE else PASSING[left.pop()]
        lasting = dice.uniform(*blow.lasts)
        if at + lasting >= seconds:
            return
        yield Planned(at, place, blow.name, lasting)
        at += lasting + dice.uniform(*BETWEEN)


def _tell(line: str) -> None:
    print(line, flush=True)


@dataclass(slots=True)
class Count:
    """What came of the plan."""

    struck: int = 0
    missed: int = 0  # the place did not answer, as after a reset
    deleted: int = 0


def drill(cluster: Cluster, seed: int, seconds: float, selector: str, namespace: str) -> Count:
    """Strike by the plan, each place in a thread of its own, and delete a pod of `selector` every few seconds."""
    count, over = Count(), threading.Event()
    planned = plan(seed, seconds, cluster.spec.names())
    began = time.monotonic()
    places = sorted({each.place for each in planned})
    each_place = [[each for each in planned if each.place == place] for place in places]
    threads = [threading.Thread(target=_suffer, args=(cluster, blows, began, count)) for blows in each_place]
    churn = threading.Thread(target=_churn, args=(cluster, random.Random(seed), selector, namespace, over, count))
    for thread in (*threads, churn):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    churn.join()
    return count


def _suffer(cluster: Cluster, planned: list[Planned], began: float, count: Count) -> None:
    """The blows of one place. A blow that can't be struck is told and counted; one that can't be taken back is tried
    until it is, for the next ones would say nothing.
    """
    for each in planned:
        time.sleep(max(0.0, began + each.at - time.monotonic()))  # the plan's pace, not a wait for anything
        blow = BLOWS[each.blow]
        told = f"{time.monotonic() - began:6.1f} s  {each.place}: {blow.name}"
        try:
            if each.blow in LASTING:
                _surely(blow.strike, cluster, each.place)
            else:
                blow.strike(cluster, each.place)
        except ClusterError as error:
            count.missed += 1
            _tell(f"{told}: not struck: {str(error).splitlines()[0]}")
            continue
        count.struck += 1
        _tell(told + (f" for {each.lasting:.0f} s" if blow.relieve else ""))
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
            time.sleep(1.0)


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
