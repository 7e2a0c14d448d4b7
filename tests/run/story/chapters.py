# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The story itself: what happens, in which order, and by which condition each step is known to have worked."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import props, readings, workloads
from .plot import clock
from .scene import Scene
from .steps import Look, Step, Wait
from .timeline import Key

HOT, OTHER = "worker1", "worker2"  # worker1 has two sockets of two CCXs, worker2 memory without processors
BROKEN = ("containerd-masked", "kubelet-disabled")
LEFT_FREE = 0.25  # of the hot node's memory when its batch pods have gone: too little for them to come back
GPU = "doslab.io/gpu-memory"
GPU_PODS = ("gpu-1", "gpu-2")
SCORES_IN_A_ROW = 4  # looks, one every four seconds; the extender itself asks the nodes every ten


# -- a collection in the cluster --------------------------------------------------------------------------


def install(scene: Scene) -> None:
    """Take away what an earlier telling left, then run site.yml."""
    if not all(scene.on_all(lambda node: _runs_pods(scene, node)).values()):
        scene.play("repair.yml", *props.offer(scene))  # one that was interrupted while a node was broken
    props.take_away(scene)
    scene.api.apply(workloads.namespace())
    props.bring_migrator(scene)
    if props.knows_gpus(scene):
        props.bring_gpus(scene)
    scene.play("site.yml", *props.offer(scene))


def installs_again(scene: Scene) -> None:
    scene.play("site.yml", *props.offer(scene))


def changed_nothing(scene: Scene) -> Look:
    """Nothing was left to do; how long that took to find, beside the run before it."""
    first, second = [one for one in scene.played if one.book == "site.yml"][-2:]
    share = second.seconds / first.seconds
    seen = f"{first.changed} changed in {clock(first.seconds)}, then {second.changed} in {clock(second.seconds)}"
    return Look(second.changed == 0, f"{seen}, {share:.2f} of the first run's time")


def _runs_pods(scene: Scene, node: str) -> bool:
    """Asked of the node, for the API notices late."""
    asked = "systemctl is-active -q containerd && systemctl is-active -q kubelet && echo yes || echo no"
    return scene.ssh(node, asked).split()[-1:] == ["yes"]


def offers(scene: Scene) -> Look:
    """Both Nodes offer what batch pods will ask for."""
    nodes = {name: _offered(scene, name) for name in scene.nodes}
    enough = workloads.BLOCKS * workloads.BATCH_PODS // 2
    return Look(all(n >= enough for n in nodes.values()), ", ".join(f"{k} offers {n} blocks" for k, n in nodes.items()))


def memory_table(scene: Scene) -> Sequence[str]:
    """What the agents themselves say of the memory, zone by zone."""
    pages = scene.on_all(lambda node: _device_plugin(scene, node))
    return [f"{node}, {zone}" for node, page in pages.items() for zone in readings.zones(page)]


def _device_plugin(scene: Scene, node: str) -> dict[str, Any]:
    """What the device plugin says of itself; nothing while it does not answer."""
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9461/status').read().decode())"
    said: dict[str, Any] = json.loads(scene.ssh(node, f"python3 -c {shlex.quote(ask)} 2>/dev/null || echo '{{}}'"))
    return said


# -- batch work -------------------------------------------------------------------------------------------


def batch_starts(scene: Scene) -> None:
    scene.api.apply(workloads.batch())


def batch_runs(scene: Scene) -> Look:
    """All batch pods run and use their blocks, some on each node."""
    where = _where(scene, "batch")
    seen = f"batch pods that run: {_counted(where)}"
    return Look(sum(where.values()) == workloads.BATCH_PODS and all(where[node] for node in scene.nodes), seen)


def batch_uses(scene: Scene) -> Look:
    """They have filled what they took."""
    used = scene.on_all(lambda node: _used_by_batch(scene, node))
    wanted = {node: count * workloads.USED_MIB for node, count in _where(scene, "batch").items()}
    seen = ", ".join(f"{node}: batch uses {used[node]} MiB" for node in scene.nodes)
    return Look(all(used[node] >= wanted.get(node, 0) for node in scene.nodes), seen)


def _used_by_batch(scene: Scene, node: str) -> int:
    """What pods use whose control group is limited to so many blocks, in MiB."""
    limit = workloads.BLOCKS * workloads.BLOCK_MIB << 20
    found = scene.ssh(
        node,
        f"""
        find /sys/fs/cgroup/kubepods.slice -name '*-pod*.slice' -type d | while read -r pod; do
            [ "$(cat "$pod/memory.max" 2>/dev/null)" = {limit} ] && cat "$pod/memory.current"
        done; true""",
    )
    return sum(int(line) for line in found.split() if line.isdigit()) >> 20


# -- online load grows ------------------------------------------------------------------------------------


def online_grows(scene: Scene) -> None:
    """An online service that will use all but LEFT_FREE of the node once its batch pods have gone."""
    meminfo = scene.ssh(HOT, "cat /proc/meminfo")
    gone = _where(scene, "batch")[HOT] * workloads.USED_MIB
    grow = readings.available_mib(meminfo) + gone - int(LEFT_FREE * readings.total_mib(meminfo))
    scene.api.apply(workloads.online(HOT, grow))


def batch_left(scene: Scene) -> Look:
    """No batch pod is on the hot node, all run on elsewhere, and the service never stopped."""
    where, service = _where(scene, "batch"), workloads.placed(scene.pods(), "online")
    restarts = sum(one.get("restartCount", 0) for pod in service for one in pod["status"].get("containerStatuses", ()))
    well = [pod for pod in service if readings.is_well(pod)]
    seen = f"batch pods that run: {_counted(where)}; online: {'runs' if well else 'starts'}, {restarts} restarts; "
    available = scene.last(Key("memory", HOT, "available"))
    seen += f"{HOT} has {available:.2f} GiB available" if available is not None else ""
    full = available is not None and available * 1024 < _hot_when_grown(scene)
    ok = where[HOT] == 0 and where[OTHER] == workloads.BATCH_PODS and len(well) == 1 and restarts == 0 and full
    return Look(ok, seen)


def _hot_when_grown(scene: Scene) -> float:
    """The service has grown when no more than this is available, in MiB."""
    if "hot_total" not in scene.facts:
        scene.facts["hot_total"] = readings.total_mib(scene.ssh(HOT, "cat /proc/meminfo"))
    return (LEFT_FREE + 0.05) * float(scene.facts["hot_total"])


# -- caches -----------------------------------------------------------------------------------------------


def web_starts(scene: Scene) -> None:
    for name in workloads.WEB:
        scene.api.apply(workloads.web(name, HOT))


def web_placed(scene: Scene) -> Look:
    """Each pod is on one CCX, or on one NUMA node where it wants more than a CCX has."""
    ready = [pod for pod in workloads.placed(scene.pods(), "web") if readings.is_well(pod)]
    if len(ready) < len(workloads.WEB):
        return Look(False, f"{len(ready)} of {len(workloads.WEB)} pods run")
    machine = json.loads(scene.ssh(HOT, "cri-resmgr topology --json"))
    found = places(machine)
    wanted = {name: "CCX" if cpus <= 2 else "NUMA" for name, cpus in workloads.WEB.items()}
    seen = ", ".join(f"{name} wants {workloads.WEB[name]} and has {found.get(name, 'no place')}" for name in wanted)
    return Look(all(found.get(name, "").startswith(kind) for name, kind in wanted.items()), seen)


def places(machine: dict[str, Any]) -> dict[str, str]:
    """The place of each of our pods."""
    found: dict[str, str] = {}
    for socket in machine["sockets"]:
        for numa in socket["numas"]:
            parts = [(f"NUMA {numa['numa']}", numa), *((f"CCX {ccx['ccx']}", ccx) for ccx in numa["ccxs"])]
            for name, part in parts:
                for one in part["containers"]:
                    namespace, pod, *dummy = str(one["name"]).split("/")
                    if namespace == workloads.NAMESPACE:
                        found[pod] = f"{name} (CPUs {one['cpus']})"
    return found


def topology(scene: Scene) -> Sequence[str]:
    """The machine with the pods on it, for the page too."""
    scene.texts[f"The processors of {HOT}, and who runs where"] = scene.ssh(HOT, "cri-resmgr topology")
    for name in workloads.WEB:
        scene.api.delete(workloads.web(name, HOT))
    return ()


# -- GPUs -------------------------------------------------------------------------------------------------


def no_gpu(scene: Scene) -> str:
    """Why the step of the GPUs is left out."""
    return "" if props.knows_gpus(scene) else f"the device plugin does not offer {GPU}"


def gpu_starts(scene: Scene) -> None:
    for name in GPU_PODS:
        scene.api.apply(workloads.gpu(name, OTHER, GPU))


def gpu_shared(scene: Scene) -> Look:
    """Both pods run, and both were told the same GPU."""
    ready = [pod for pod in workloads.placed(scene.pods(), "gpu") if readings.is_well(pod)]
    if len(ready) < len(GPU_PODS):
        return Look(False, f"{len(ready)} of {len(GPU_PODS)} pods run")
    told = {name: _told_gpu(scene, name) for name in GPU_PODS}
    seen = ", ".join(f"{name} was given {text or 'no GPU'}" for name, text in told.items())
    return Look(all(told.values()) and len({text.split()[0] for text in told.values()}) == 1, seen)


def _told_gpu(scene: Scene, pod: str) -> str:
    script = 'echo "$DOSLAB_IO_GPU_UUID ($DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER MiB)"'
    words = ("kubectl", "exec", f"--namespace={workloads.NAMESPACE}", pod, "--", "/bin/busybox", "sh", "-c", script)
    text = scene.tool(*words).strip()
    return "" if text.startswith("(") else text


def gpus_go(scene: Scene) -> Sequence[str]:
    for name in GPU_PODS:
        scene.api.delete(workloads.gpu(name, OTHER, GPU))
    return ()


# -- placing by real use ----------------------------------------------------------------------------------


def scored(scene: Scene) -> Look:
    """The extender knows that the hot node is hot, and not only for a moment."""
    series = scene.series()
    scores = {
        node: [one.value for one in series.get(Key("scores", node, "memory"), ())[-SCORES_IN_A_ROW:]]
        for node in scene.nodes
    }
    seen = ", ".join(f"{node}: {f'score {s[-1]:g}' if s else 'no score yet'}" for node, s in scores.items())
    each = list(zip(scores[HOT], scores[OTHER], strict=False))
    return Look(len(each) == SCORES_IN_A_ROW and all(hot < other for hot, other in each), seen)


def new_start(scene: Scene) -> None:
    for role in ("use", "requests"):
        scene.api.apply(workloads.new_pods(role))


def new_placed(scene: Scene) -> Look:
    """All new pods run; those that are placed by real use are not on the hot node."""
    use, requests = _where(scene, "use"), _where(scene, "requests")
    seen = f"placed by real use: {_counted(use)}; by requests: {_counted(requests)}"
    all_run = sum(use.values()) == sum(requests.values()) == workloads.NEW_PODS
    return Look(all_run and use[HOT] == 0, seen)


# -- a node breaks ----------------------------------------------------------------------------------------


def breaks(scene: Scene) -> None:
    scene.tool("break", HOT, *BROKEN)


def is_missing(scene: Scene) -> Look:
    ready = readings.is_ready(scene.api.get(f"/api/v1/nodes/{HOT}"))
    return Look(not ready, f"{HOT} is {'still Ready for the API' if ready else 'NotReady'}")


def repairs(scene: Scene) -> None:
    scene.play("repair.yml", *props.offer(scene))


def is_back(scene: Scene) -> Look:
    """The node is Ready, its device plugin offers memory again as the kubelet knows it, and its service runs."""
    ready = readings.is_ready(scene.api.get(f"/api/v1/nodes/{HOT}"))
    service = [pod for pod in workloads.placed(scene.pods(), "online") if readings.is_well(pod)]
    offered = _device_plugin(scene, HOT).get("healthy") is True
    seen = (
        f"{HOT} is {'Ready' if ready else 'NotReady'}, {'offers' if offered else 'does not offer'} memory, "
        f"its online pod is {'well' if service else 'not Ready'}"
    )
    return Look(ready and offered and bool(service), seen)


# -- the way back -----------------------------------------------------------------------------------------


def work_ends(scene: Scene) -> None:
    scene.api.delete(workloads.namespace())


def has_ended(scene: Scene) -> Look:
    left = [pod for pod in scene.pods() if pod["metadata"].get("namespace") == workloads.NAMESPACE]
    there = scene.api.there(workloads.namespace())
    return Look(not left and not there, f"{len(left)} pods are left" if left else "the namespace goes")


def uninstall(scene: Scene) -> None:
    scene.play("uninstall.yml", *props.offer(scene))
    props.take_away(scene)


# -- what several steps look at ---------------------------------------------------------------------------


def _offered(scene: Scene, node: str) -> int:
    return int(scene.api.get(f"/api/v1/nodes/{node}")["status"].get("allocatable", {}).get(readings.MEMORY, 0))


def _where(scene: Scene, role: str) -> Counter[str]:
    """How many pods of a role are well, by node."""
    pods = workloads.placed(scene.pods(), role)
    return Counter(dict.fromkeys(scene.nodes, 0)) + Counter(
        str(pod["spec"].get("nodeName", "")) for pod in pods if readings.is_well(pod)
    )


def _counted(where: Counter[str]) -> str:
    return ", ".join(f"{where[node]} on {node}" for node in (HOT, OTHER))


def recap(scene: Scene) -> Sequence[str]:
    """What the last playbook did to each host."""
    return scene.recap


STORY: tuple[Step[Scene], ...] = (
    Step(
        "install",
        "The collection is installed",
        "playbooks/site.yml: preflight, then device plugin and CRI proxy on both nodes, then the scheduler.",
        act=install,
        tells=recap,
    ),
    Step(
        "again",
        "A second run changes nothing",
        "playbooks/site.yml once more, told the same: it looks, and finds nothing to do.",
        act=installs_again,
        until=Wait("no task that changed something", changed_nothing, 0),
        tells=recap,
    ),
    Step(
        "idle",
        "Idle memory appears as blocks",
        "The agents count what online work leaves idle, NUMA node by NUMA node, and offer it to the kubelet.",
        until=Wait("enough blocks on both nodes for the batch pods", offers, 180),
        tells=memory_table,
    ),
    Step(
        "batch",
        "Batch pods take them",
        f"{workloads.BATCH_PODS} pods ask for {workloads.BLOCKS} blocks each; a limit holds each pod to its blocks.",
        act=batch_starts,
        until=Wait("all batch pods running, some on each node", batch_runs, 300),
    ),
    Step(
        "pressure",
        "Online load grows, and batch work makes room",
        f"A service on {HOT} that asked for 64 MiB takes most of the node; batch pods go to where blocks are free.",
        before=Wait("batch pods that use their blocks", batch_uses, 300),
        act=online_grows,
        until=Wait(f"no batch pod on {HOT}, all of them on {OTHER}, the service grown and never restarted",
                   batch_left, 420),
    ),
    Step(
        "caches",
        "Pods get CPU caches of their own",
        "Pods that ask for 1 and 2 processors get one CCX each, one that asks for 3 gets a NUMA node.",
        act=web_starts,
        until=Wait("each pod on its CCX or NUMA node", web_placed, 240),
        tells=topology,
    ),
    Step(
        "gpu",
        "Pods share a GPU",
        "Two pods ask for a quarter of a GPU each (a double of one) and are given the same.",
        needs=no_gpu,
        act=gpu_starts,
        until=Wait("two pods on shares of a GPU", gpu_shared, 240),
        tells=gpus_go,
    ),
    Step(
        "hot-node",
        "The scheduler avoids the hot node",
        f"{workloads.NEW_PODS} small pods are placed by real use, as many by requests, by which {HOT} looks idle.",
        before=Wait(f"a lower score for {HOT} than for {OTHER}", scored, 240),
        act=new_start,
        until=Wait(f"all new pods running, none of those placed by real use on {HOT}", new_placed, 420),
    ),
    Step(
        "break",
        "A node breaks",
        f"On {HOT} containerd is stopped and masked, the kubelet stopped and disabled: {', '.join(BROKEN)}.",
        act=breaks,
        until=Wait(f"{HOT} NotReady", is_missing, 180),
    ),
    Step(
        "repair",
        "repair.yml brings it back",
        "playbooks/repair.yml looks at every node and takes the least steps after which it is well.",
        act=repairs,
        until=Wait(f"{HOT} Ready, its memory on offer, its service well", is_back, 300),
        tells=recap,
    ),
    Step(
        "end",
        "The work ends",
        "All pods of the story go, so that nothing holds what the agents offer.",
        act=work_ends,
        until=Wait("no pod of the story", has_ended, 240),
    ),
    Step(
        "uninstall",
        "uninstall.yml leaves nothing",
        "Everything goes; five minutes of it are the kubelet's, which keeps a resource for so long after its plugin.",
        act=uninstall,
        until=Wait("nodes and API as they were before the first run", props.nothing_left, 240),
        tells=recap,
    ),
)  # fmt: skip
