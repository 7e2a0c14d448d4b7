# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the story brings to the cluster beside the collection and takes away, and how to tell that nothing stayed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from . import workloads
from .scene import Scene
from .steps import Look, Trouble

MIGRATOR_FILE = "/etc/kubernetes/story-migrator.conf"
GPU_FILE = "/var/lib/story-gpus-double.yaml"
CLUSTER = "the cluster"  # beside the nodes, of what was looked at before the first run


def offer(scene: Scene, collection: Path | None = None) -> list[str]:
    """What the playbooks are told, as options; the files are those of the stage, or of another collection."""
    here = (scene.collection if collection is None else collection) / "tests" / "run" / "story"
    files = ["offer.yml", *(["offer-gpu.yml"] if knows_gpus(scene) else [])]
    return [word for name in files for word in ("-e", f"@{here / name}")]


def bring_migrator(scene: Scene) -> None:
    """Put a kubeconfig of somebody who may list nodes and pods on each node."""
    account, *others = workloads.migrator()
    for thing in (account, *others):
        scene.api.apply(thing)
    place = f"/api/v1/namespaces/{workloads.NAMESPACE}/serviceaccounts/{workloads.MIGRATOR}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    token = str(scene.api.post(place, asked)["status"]["token"])
    cluster = scene.kubeconfig()["clusters"][0]["cluster"]
    document = workloads.kubeconfig(cluster["server"], cluster["certificate-authority-data"], token)
    write = f"umask 077; echo {shlex.quote(json.dumps(document))} > {MIGRATOR_FILE}"
    scene.on_all(lambda node: scene.ssh(node, write))


def knows_gpus(scene: Scene) -> bool:
    """Whether the device plugin of this checkout has the double of GPUs; nodes of the demo have no real ones."""
    agent = scene.collection / "files" / "agents" / "colocation" / "device_plugin"
    return (agent / "gpu_file_double.py").exists()


def bring_gpus(scene: Scene) -> None:
    """A GPU for each node, in a file."""

    def write(node: str) -> str:
        gpu = {"uuid": f"GPU-{node}", "memoryMiB": 16384, "model": "double", "numa": 0, "health": "healthy"}
        return scene.ssh(node, f"umask 077; echo {shlex.quote(json.dumps({'gpus': [gpu]}))} > {GPU_FILE}")

    scene.on_all(write)


def take_away(scene: Scene) -> None:
    """Take away what the story made in the cluster beside the collection."""
    scene.api.delete(workloads.namespace())
    for thing in workloads.migrator()[1:]:
        scene.api.delete(thing)
    scene.on_all(lambda node: scene.ssh(node, f"rm -f {MIGRATOR_FILE} {GPU_FILE}"))
    until = scene.now() + 240
    while scene.api.there(workloads.namespace()):
        if scene.now() > until:
            raise Trouble(f"the namespace {workloads.NAMESPACE} of an earlier telling does not go")
        scene.pause(1.0)


def stands(scene: Scene) -> dict[str, list[str]]:
    """What an uninstall must leave as it was, on each node and in the cluster."""
    script = scene.collection / "molecule" / "shared" / "what_stands"
    nodes = scene.on_all(lambda node: scene.ssh(node, script.read_text(), limit=180).splitlines())
    return {**nodes, CLUSTER: scene.cluster_stands()}


def nothing_left(scene: Scene) -> Look:
    """Nodes and cluster are as they were before the first run."""
    now = stands(scene)
    if missing := now.keys() - scene.before.keys():
        raise Trouble(f"nobody looked at {min(missing)} before the first run: ./demo --destroy, and begin anew")
    left = [f"{place}: {line}" for place in now for line in _differences(scene.before[place], now[place])]
    if left:
        return Look(False, "left: " + "; ".join(left[:8]))
    return Look(True, "files, units, mounts, sockets, kernel settings and the cluster's objects are what they were")


def _differences(before: list[str], now: list[str]) -> list[str]:
    return [*(f"gone: {line}" for line in before if line not in now),
            *(f"new: {line}" for line in now if line not in before)]  # fmt: skip
