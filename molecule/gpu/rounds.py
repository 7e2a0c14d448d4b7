# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The scenario's rounds: pods end and others come at once, the kubelet is restarted or the agent killed meanwhile, and
in the end all run, and the kubelet's checkpoint, what programs were started with, annotations and the agent's page say
the same. Ends with 1, and says why, where that does not come true. KUBECONFIG says where the API is."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import (
    ALL,
    GIB,
    HONOURED,
    RESOURCE,
    SHAPES,
    UNITS,
    UUIDS,
    Shape,
    Told,
    at_once,
    coming,
    filled,
    honoured,
    shape_of,
    strike,
    wrong,
    wrong_holders,
)
from ansible_collections.colocation.kubernetes.tests.contract.agents.upper_scheduler_double import UpperScheduler
from colocation.common.kube_api import ApiError, KubeApi, kubeconfig
from colocation.common.retry import Backoff

NODE, SPACE = "worker1", "gpu-rounds"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
SECONDS, PAUSE = 900.0, 2.5
PLANNED = 100  # containers that are enough to judge by how the plan is kept
Pod = dict[str, Any]

# Why the kubelet (1.36) refuses a pod that comes while it or the plugin is not there, and comes again. What else its
# device manager says would be the plugin's fault: units of healthy GPUs that are missing in its list or that nobody
# holds, or a request that it refused.
REFUSALS = tuple(
    re.compile(text)
    for text in (
        rf"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}, which is unexpected",
        r"rpc error: code = (Unavailable|Canceled) desc = .*, which is unexpected",
        r"endpoint .* has been stopped, which is unexpected",
        rf"Node didn't have enough resource: {RESOURCE}, requested: \d+, used: \d+, capacity: (?!{ALL})\d",
    )
)

# A kubelet that begins takes all that its record has for held until it has heard of every pod, also what pods had that
# ended since something was last given away: those of the round before, and of this one.
FULL = re.compile(rf"requested number of devices unavailable for {RESOURCE}\. Requested: \d+, Available: \d+")

AGENT = "colocation-device-plugin"
# When it was done stands in a file: what the kubelet writes later is of after it.
RESTART = "systemctl stop kubelet && touch /run/gpu-rounds && systemctl start kubelet"
KILL = f"""
process() {{ systemctl show --property=MainPID --value {AGENT}; }}
before=$(process) && touch /run/gpu-rounds && systemctl kill --signal=SIGKILL {AGENT} || exit 1
end=$(($(date +%s) + 120))
until [ "$(process)" != "$before" ] && systemctl is-active --quiet {AGENT}; do
  if [ "$(date +%s)" -gt $end ]; then systemctl status {AGENT}; exit 1; fi
  sleep 1
done
"""
LOOK = """
import http.client, json, os

def written(path):
    return os.stat(path).st_mtime if os.path.exists(path) else 0.0

def environment(id):
    with open(f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json") as file:
        return [one for one in json.load(file)["process"]["env"] if one.startswith(("NVIDIA_", "DOSLAB_"))]

def page():
    try:
        asked = http.client.HTTPConnection("127.0.0.1", 9461, timeout=10)
        asked.request("GET", "/status")
        return json.load(asked.getresponse())
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return {"summary": "", "problems": [f"no answer: {problem!r}"], "tables": []}

path = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
with open(path) as file:
    found = {"written": os.fstat(file.fileno()).st_mtime, "struck": written("/run/gpu-rounds")}
    data = json.load(file)["Data"]
found["registered"] = len((data["RegisteredDevices"] or {}).get(resource) or ())
found["held"] = [
    (one["PodUID"], one["ContainerName"], [id for part in one["DeviceIDs"].values() for id in part])
    for one in data["PodDeviceEntries"] or () if one["ResourceName"] == resource
]
found["page"] = page()
found["environment"] = {id: environment(id) for id in ids}
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Look:
    """What is read on the node, at once."""

    written: float  # when the kubelet wrote its checkpoint
    struck: float
    registered: int  # units that it was offered
    held: list[tuple[str, str, list[str]]]  # the checkpoint: pod's UID, container, device IDs
    page: dict[str, Any]  # the agent's
    environment: dict[str, list[str]]  # of containers that run

    def back(self) -> bool:
        """Whether all is there again after what was done last."""
        watched = re.search(r"the kubelet watches ([1-9]) of \1 resources", self.page["summary"]) is not None
        return watched and self.registered == ALL and self.written > self.struck

    def ids(self, uid: str) -> dict[str, list[str]]:
        return {container: ids for holder, container, ids in self.held if holder == uid}

    def rows(self) -> list[list[object]]:
        """The page's holders: pod, container, GPU, amount."""
        tables = [table for table in self.page["tables"] if table["title"] == "Holders of GPUs"]
        return [row[1:] for table in tables for row in table["rows"]]


class Failed(Exception):
    """A program on the node did not end well; the text says how."""


class Unreached(Failed):
    """It may not have begun."""


class Node:
    """By ssh, whose command line this is up to the program."""

    def __init__(self, ssh: Sequence[str]) -> None:
        self._ssh = ssh

    def run(self, program: str, stdin: str) -> str:
        command = [*self._ssh, program]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired as problem:
            raise Unreached(str(problem)) from None
        if done.returncode:
            kind = Unreached if done.returncode == 255 else Failed  # ssh's own
            raise kind(f"{program} on {NODE}: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def strike(self, what: str) -> None:
        """Also where ssh needs more than one try, for another stroke does no harm."""
        for rest in (2, 1, 0):
            try:
                self.run("sh -s", RESTART if what == "restart" else KILL)
                return
            except Unreached:
                if not rest:
                    raise
                time.sleep(5)

    def look(self, ids: Collection[str]) -> Look:
        found = json.loads(self.run("python3 -", f"resource, ids = {RESOURCE!r}, {sorted(ids)!r}\n{LOOK}"))
        return Look(**found)


def document(name: str, shape: Shape, bound: bool) -> Pod:
    def container(name: str, command: list[str]) -> dict[str, Any]:
        return {
            "name": name,
            "image": "colocation.test/workload:1",
            "imagePullPolicy": "Never",
            "command": command,
            "resources": {"limits": {RESOURCE: str(shape.wants[name] * GIB)}},
        }

    # When all runs an init container has ended: what it was started with stands in the pod's status.
    tell = ["/bin/busybox", "sh", "-c", "/bin/busybox env > /dev/termination-log"]
    spec = {
        "containers": [container(name, ["/bin/sleep", "2147483647"]) for name in shape.wants if name != "i0"],
        "initContainers": [container("i0", tell)] if shape.init else [],
        "hostNetwork": True,  # CNI's programs would take a third of the time
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    spec |= {"nodeName": NODE} if bound else {"schedulerName": "upper"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def state(pod: Pod) -> str:
    return "Ending" if pod["metadata"].get("deletionTimestamp") else str(pod["status"].get("phase"))


def statuses(pod: Pod) -> Iterable[dict[str, Any]]:
    return (one for part in ("initContainerStatuses", "containerStatuses") for one in pod["status"].get(part) or ())


def variables(lines: Iterable[str]) -> dict[str, str]:
    """The environment, from lines as `env` writes them."""
    return {name: text for name, _equals, text in (line.partition("=") for line in lines)}


class Environments:
    """What containers were started with, by their own ID: each is read once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def unknown(self, pods: Iterable[Pod]) -> set[str]:
        """Containers that run and were not read; one that has ended told it in its status."""
        found = set()
        for pod in pods:
            for one in statuses(pod):
                id = str(one.get("containerID", "")).rpartition("/")[2]
                if ended := one["state"].get("terminated"):
                    self._known.setdefault(id, variables(str(ended.get("message", "")).splitlines()))
                elif id and id not in self._known:
                    found.add(id)
        return found

    def add(self, read: Mapping[str, Iterable[str]]) -> None:
        self._known |= {id: variables(lines) for id, lines in read.items()}

    def of(self, pod: Pod) -> dict[str, dict[str, str]]:
        """By container."""
        return {
            one["name"]: self._known.get(str(one.get("containerID", "")).rpartition("/")[2], {})
            for one in statuses(pod)
        }


class Rounds:
    """With `upper`, an upper scheduler places the pods, and sometimes dies."""

    def __init__(self, api: KubeApi, node: Node, upper: bool, count: int) -> None:
        self._api, self._node, self._upper, self._count = api, node, upper, count
        self._scheduler = UpperScheduler(api, NODE, SPACE, RESOURCE, UUIDS, UNITS, 9)
        self._environments = Environments()
        self._expected: dict[str, str] = {}  # the pods that there are to be: names by UID
        self._ran: set[str] = set()  # before the last stroke
        self._sure: set[str] = set()  # who came when all was there
        self._calm = True  # nothing is done to the node, and all is there
        self._left = 0  # GiB of those that ended in the round before
        self._full = False  # a kubelet that began may take all for held
        self._refused: list[str] = []
        self._again_made = 0
        self._kept = self._booked = 0  # containers, where nothing befell
        self._told: list[Told] = []

    def begin(self) -> None:
        """With nobody there."""
        try:
            self._api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        except ApiError as problem:
            if problem.status != 409:
                raise
        accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        until("the namespace has its account", lambda: [] if self._api.get(accounts)["items"] else ["it has none"])
        self._end(self._pods())
        until("nobody is there", lambda: [pod["metadata"]["name"] for pod in self._pods()])

    def round(self, number: int) -> str:
        """One round; how it went, in a line."""
        chance, what = random.Random(f"{number} {self._upper}"), strike(number, self._upper)
        self._refused, died = [], self._scheduler.died
        living = self._pods()
        gone = chance.sample(living, len(living) // 4)
        left = [pod for pod in living if pod not in gone]
        shapes = coming(chance, self._count - len(left), sum(shape_of(pod).size for pod in left))
        used = sum(shape_of(pod).size for pod in living)
        now = at_once(shapes, used)
        recorded = used + self._left + sum(shape.size for shape in shapes[:now])
        self._full = what == "restart" and recorded + max(shape.size for shape in SHAPES) > ALL // GIB
        names = [f"pod-{number}-{place}" for place in range(len(shapes))]
        self._end(gone)
        self._make(names[:now], shapes[:now])
        if what:
            self._strike(what)
        ended = {uid_of(pod) for pod in gone}
        until("pods are gone", lambda: [pod["metadata"]["name"] for pod in self._pods() if uid_of(pod) in ended])
        self._make(names[now:], shapes[now:])
        until("all is there again", self._missing)
        self._calm, self._left = True, sum(shape_of(pod).size for pod in gone)
        until("all pods run, and all that is said of them agrees", self._wrong)
        kept, booked = honoured(self._scheduler.plan, (pod for pod in self._told if pod.name in names))
        if not what:
            self._judge_plan(kept, booked)
        return (
            f"{what or 'nothing'} befell; {len(self._told)} pods run, {len(shapes)} new ({now} while others ended),"
            f" {len(self._refused)} refused before; GPUs are filled by {filled(self._told)} %"
            + (f"; {kept} of {booked} as booked, {self._scheduler.died - died} deaths" if self._upper else "")
        )

    def _judge_plan(self, kept: int, booked: int) -> None:
        self._kept, self._booked = self._kept + kept, self._booked + booked
        if self._booked >= PLANNED and self._kept < self._booked * HONOURED:
            sys.exit(f"only {self._kept} of {self._booked} containers got a GPU that was booked for one of their size")

    def _pods(self) -> list[Pod]:
        found: list[Pod] = self._api.get(PODS)["items"]
        return found

    def _end(self, gone: Iterable[Pod]) -> None:
        for pod in gone:
            name = pod["metadata"]["name"]
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": SPACE, "name": name}}
            self._api.post(f"{PODS}/{name}/eviction", body)
            self._expected.pop(uid_of(pod), None)

    def _make(self, names: Iterable[str], shapes: Iterable[Shape]) -> None:
        for name, shape in zip(names, shapes, strict=True):
            uid = uid_of(self._api.post(PODS, document(name, shape, not self._upper)))
            self._expected[uid] = name
            self._sure |= {uid} if self._calm else set()
        if self._upper:
            self._scheduler.run(dies=0.2)

    def _strike(self, what: str) -> None:
        self._ran = {uid_of(pod) for pod in self._pods() if state(pod) == "Running"}
        self._calm = False
        self._sure.clear()
        self._node.strike(what)

    def _missing(self) -> list[str]:
        """What is not there yet: the units on the Node, the plugin, a kubelet that knows all pods."""
        offered = self._api.get(f"/api/v1/nodes/{NODE}")["status"]["allocatable"].get(RESOURCE, "0")
        if offered != str(ALL):
            return [f"the Node offers {offered} units"]
        try:
            # A kubelet without pods says null.
            known = {uid_of(pod) for pod in self._api.get(f"/api/v1/nodes/{NODE}/proxy/pods")["items"] or ()}
            look = self._node.look(())
        except (ApiError, Failed) as problem:
            return [str(problem)]
        if not look.back():
            return [f"the kubelet has {look.registered} units, and the agent says: {look.page['summary']}"]
        bound = [pod for pod in self._pods() if pod["spec"].get("nodeName") and state(pod) in ("Pending", "Running")]
        return [f"the kubelet does not know {pod['metadata']['name']}" for pod in bound if uid_of(pod) not in known]

    def _wrong(self) -> list[str]:
        """What is not as it should be: pods that don't run, or what differs."""
        if self._upper:
            self._scheduler.run(dies=0.0)  # it came again
        pods = self._pods()
        if failed := [pod for pod in pods if state(pod) == "Failed"]:
            self._again(failed)
            return [f"{pod['metadata']['name']} comes again" for pod in failed]
        if idle := [pod for pod in pods if state(pod) != "Running"]:
            return [f"{pod['metadata']['name']}: {state(pod)}, {json.dumps(pod['status'])[:500]}" for pod in idle]
        if lost := self._expected.items() - {(uid_of(pod), pod["metadata"]["name"]) for pod in pods}:
            return [f"{name} is not there any more" for _uid, name in lost]
        if len(pods) != self._count:
            return [f"{len(pods)} pods run, and {self._count} should"]
        try:
            look = self._node.look(self._environments.unknown(pods))
        except Failed as problem:
            return [str(problem)]
        self._environments.add(look.environment)
        self._told = [self._tell(pod, look) for pod in pods]
        left = [(container, ids) for uid, container, ids in look.held if uid not in self._expected]
        problems = [f"the agent says: {problem}" for problem in look.page["problems"]]
        return [*wrong(self._told), *wrong_holders(look.rows(), SPACE, self._told, left), *problems]

    def _tell(self, pod: Pod, look: Look) -> Told:
        metadata = pod["metadata"]
        notes = metadata.get("annotations") or {}
        return Told(metadata["name"], shape_of(pod), look.ids(uid_of(pod)), self._environments.of(pod), notes)

    def _again(self, failed: Iterable[Pod]) -> None:
        """A pod that came while the kubelet or the plugin was not there is refused by the kubelet, whatever a plugin
        does, and its controller makes another one. So do we."""
        for pod in failed:
            said = f"{pod['status'].get('reason')}: {pod['status'].get('message')}"
            if why := self._not_to_be_refused(pod, said):
                sys.exit(f"{pod['metadata']['name']} was refused, and {why}: {said}")
            self._refused.append(said)
            self._end([pod])
            self._again_made += 1
            name = f"{pod['metadata']['name'].partition('-again')[0]}-again{self._again_made}"
            self._make([name], [shape_of(pod)])

    def _not_to_be_refused(self, pod: Pod, said: str) -> str:
        """Why that is no refusal to put up with."""
        full = self._full and FULL.search(said)
        if not full and not any(reason.search(said) for reason in REFUSALS):
            return "not for want of the kubelet or the plugin"
        if uid_of(pod) in self._sure:
            return "both were there all the time"
        # A kubelet that begins takes pods that run as they are, but for init containers that ended: these have to be
        # served anew, by a plugin that is not there yet.
        if uid_of(pod) in self._ran and not shape_of(pod).init:
            return "it ran"
        return ""


def until(what: str, missing: Callable[[], list[str]]) -> None:
    """Until nothing is missing."""
    end = time.monotonic() + SECONDS
    while found := missing():
        if time.monotonic() > end:
            sys.exit("\n  ".join([f"not within {SECONDS:g} s: {what}", *found[:20]]))
        time.sleep(PAUSE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ssh", type=shlex.split, required=True, help="the command line by which the node is reached")
    parser.add_argument("--placed-by", choices=["nobody", "upper"], required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--first", type=int, default=1, help="its number, where an earlier run had those before it")
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True, help="gets a line a round")
    chosen = parser.parse_args()
    api = KubeApi(kubeconfig(os.environ["KUBECONFIG"]), 30, Backoff(tries=6))
    rounds = Rounds(api, Node(chosen.ssh), chosen.placed_by == "upper", chosen.pods)

    def tell(text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} placed by {chosen.placed_by}, {text}"
        print(line, flush=True)
        with chosen.log.open("a") as log:
            log.write(line + "\n")

    try:
        rounds.begin()
        for number in range(chosen.first, chosen.first + chosen.rounds):
            began = time.monotonic()
            said = rounds.round(number - 1)
            tell(f"round {number}, {time.monotonic() - began:.0f} s: {said}")
    except (Exception, SystemExit) as problem:
        tell(f"ended: {problem!r}")
        raise


if __name__ == "__main__":
    main()
