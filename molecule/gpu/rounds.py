# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The pods of the scenario's rounds, seen from the API: `renew` ends some and makes others, `settle` waits until they
run, `check` compares what each was given with the kubelet's checkpoint (on stdin). KUBECONFIG says where the API is."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.agents.upper_scheduler_double import (
    ASSIGNED,
    UUID,
    UpperScheduler,
)
from colocation.common.kube_api import ApiError, KubeApi, kubeconfig
from colocation.common.retry import Backoff

RESOURCE, NODE, SPACE = "doslab.io/gpu-memory", "worker1", "gpu-rounds"
UUIDS = [f"GPU-{n:08x}-f96b-ba85-c137-78c3652fea65" for n in range(4)]
UNIT, UNITS = 32, 81920 // 32
GIB = 1024 // UNIT
SHAPES = ((2,), (4,), (8,), (8,), (8,), (8,), (16,), (4, 4), (2, 8))
USED = "DOSLAB_IO_GPU_RESOURCE_USED_BY_"
KEYS = {"visible": "NVIDIA_VISIBLE_DEVICES", "uuid": UUID, "container": f"{USED}CONTAINER", "pod": f"{USED}POD"}
TELL = 'echo "{' + ",".join(f'\\"{key}\\":\\"${name}\\"' for key, name in KEYS.items()) + '}"; exec sleep 3600'
SECONDS = 300.0
ATTEMPTS = 10  # to have a pod run that was refused
# Why a pod may be refused: it came while the kubelet or the plugin was not there yet.
REASONS = (
    "no healthy devices present",
    "Unregistered",
    "Pod was rejected: Node didn't have enough resource",
    "requested number of devices unavailable",
    "endpoint",
    "Unavailable",
    "the client connection is closing",
)


def pods(api: KubeApi) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/v1/namespaces/{SPACE}/pods")["items"]
    return found


def size(pod: dict[str, Any]) -> int:
    return sum(int(one["resources"]["limits"][RESOURCE]) for one in pod["spec"]["containers"])


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"not within {SECONDS:g} s: {what}")
        time.sleep(1)


def document(name: str, shape: tuple[int, ...], bound: bool) -> dict[str, Any]:
    containers = [
        {
            "name": f"c{n}",
            "image": "colocation.test/workload:1",
            "imagePullPolicy": "Never",
            "command": ["/bin/busybox", "sh", "-c", TELL],
            "resources": {"limits": {RESOURCE: str(gib * GIB)}},
        }
        for n, gib in enumerate(shape)
    ]
    spec = {
        "containers": containers,
        "hostNetwork": True,  # CNI's programs would take a third of the time
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
    }
    spec |= {"nodeName": NODE} if bound else {"schedulerName": "upper"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def renew(api: KubeApi, wanted: int, seed: int, upper: bool) -> None:
    """A third of the pods ends and as many come, at once. There is always a GPU with room for the largest."""
    chance = random.Random(seed)
    living = pods(api)
    gone = chance.sample(living, len(living) // 3)
    end(api, gone)
    left = [pod for pod in living if pod not in gone]
    room = 4 * UNITS * 3 // 4 - sum(map(size, left))
    made: list[dict[str, Any]] = []
    for number in range(wanted - len(left)):
        shape = chance.choice(SHAPES)
        if (room := room - sum(shape) * GIB) >= 0:
            made.append(document(f"pod-{seed}-{number}", shape, not upper))
    for pod in made:
        api.post(f"/api/v1/namespaces/{SPACE}/pods", pod)
    if upper:
        scheduler(api, seed).run(dies=0.2)


def scheduler(api: KubeApi, seed: int) -> UpperScheduler:
    return UpperScheduler(api, NODE, SPACE, RESOURCE, UUIDS, UNITS, seed)


def settle(api: KubeApi, seed: int, upper: bool) -> dict[str, list[str]]:
    """Until each pod runs and annotations are written; who was refused, and for what reasons.

    A pod that came while the kubelet or the plugin was not there is refused by the kubelet, whatever a plugin does, and
    its controller makes another one. So do we, for all of them at once, when the Node has the resource again.
    """
    refused: dict[str, list[str]] = {}
    for attempt in range(ATTEMPTS):
        if upper:
            scheduler(api, seed + 1 + attempt).run(dies=0.0)  # it came again
        until("all pods run or were refused", lambda: {phase(pod) for pod in pods(api)} <= {"Running", "Failed"})
        failed = [pod for pod in pods(api) if phase(pod) == "Failed"]
        if not failed:
            break
        for pod in failed:
            said = f"{pod['status'].get('reason')}: {pod['status'].get('message')}"
            if not any(reason in said for reason in REASONS):
                sys.exit(f"{pod['metadata']['name']} failed: {said}")
            refused.setdefault(said, []).append(pod["metadata"]["name"])
        until("the Node has the resource again", lambda: offered(api) == 4 * UNITS)
        end(api, failed)
        for pod in failed:
            shape = tuple(int(one["resources"]["limits"][RESOURCE]) // GIB for one in pod["spec"]["containers"])
            name = f"{pod['metadata']['name'].partition('-again')[0]}-again{attempt}"
            api.post(f"/api/v1/namespaces/{SPACE}/pods", document(name, shape, not upper))
    else:
        sys.exit(f"pods were refused {ATTEMPTS} times, in the end though nothing was restarted: {json.dumps(refused)}")

    def written() -> bool:
        return all((pod["metadata"].get("annotations") or {}).get(ASSIGNED) == "true" for pod in pods(api))

    until("annotations are written", written)
    return refused


def phase(pod: dict[str, Any]) -> str:
    return str(pod["status"].get("phase"))


def offered(api: KubeApi) -> int:
    return int(api.get(f"/api/v1/nodes/{NODE}")["status"]["allocatable"].get(RESOURCE, "0"))


def check(api: KubeApi, checkpoint: dict[str, Any]) -> str:
    """Devices, environment and annotations say the same; what it was in a line."""
    held: dict[tuple[str, str], list[str]] = {}
    for entry in checkpoint["Data"]["PodDeviceEntries"] or ():
        if entry["ResourceName"] == RESOURCE:
            ids = [id for part in entry["DeviceIDs"].values() for id in part]
            held[entry["PodUID"], entry["ContainerName"]] = ids
    running = pods(api)
    assert {phase(pod) for pod in running} == {"Running"}
    living = [id for pod in running for ids in held_by(pod, held).values() for id in ids]
    assert len(living) == len(set(living)), "devices are held twice"
    for pod in running:
        metadata, gpus = pod["metadata"], dict[str, None]()
        for name, ids in held_by(pod, held).items():
            (gpu,) = {uuid for uuid in UUIDS for id in ids if uuid[4:12] == id.partition("-")[0]}
            gpus[gpu] = None
            said = api.get(f"/api/v1/namespaces/{SPACE}/pods/{metadata['name']}/log", container=name)
            assert (said["visible"], said["uuid"]) == (gpu, gpu), (metadata["name"], said, gpu)
            assert said["container"] == str(len(ids) * UNIT), (metadata["name"], said, len(ids))
            assert said["pod"] in ("", str(size(pod) * UNIT)), (metadata["name"], said)
        noted = metadata["annotations"]
        assert (noted[UUID], noted[ASSIGNED]) == (",".join(gpus), "true"), (metadata["name"], noted, gpus)
    by_gpu = [sum(id.startswith(uuid[4:12]) for id in living) * 100 // UNITS for uuid in UUIDS]
    assert max(by_gpu) <= 100
    return f"{len(running)} pods run, GPUs are filled by {by_gpu} %"


def held_by(pod: dict[str, Any], held: dict[tuple[str, str], list[str]]) -> dict[str, list[str]]:
    uid = pod["metadata"]["uid"]
    return {one["name"]: held[uid, one["name"]] for one in pod["spec"]["containers"]}


def end(api: KubeApi, gone: list[dict[str, Any]]) -> None:
    """Have these pods gone."""
    for pod in gone:
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": SPACE, "name": name}}
        api.post(f"/api/v1/namespaces/{SPACE}/pods/{name}/eviction", body)
    uids = {pod["metadata"]["uid"] for pod in gone}
    until("pods are gone", lambda: not uids & {pod["metadata"]["uid"] for pod in pods(api)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["renew", "settle", "check"])
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--placed-by", choices=["nobody", "upper"], default="nobody")
    chosen = parser.parse_args()
    api = KubeApi(kubeconfig(os.environ["KUBECONFIG"]), 30, Backoff(tries=4))
    upper = chosen.placed_by == "upper"
    if chosen.step == "renew":
        try:
            api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        except ApiError as problem:
            if problem.status != 409:
                raise
        accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        until("the namespace has its account", lambda: bool(api.get(accounts)["items"]))
        renew(api, chosen.pods, chosen.seed, upper)
    elif chosen.step == "settle":
        print(json.dumps(settle(api, chosen.seed, upper)))
    else:
        print(check(api, json.load(sys.stdin)))


if __name__ == "__main__":
    main()
