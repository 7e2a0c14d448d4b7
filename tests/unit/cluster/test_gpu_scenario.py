# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The rounds of pods on GPUs, with a double of a cluster: what they make of it, and what they don't put up with."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import (
    ALL,
    ASSIGNED,
    GIB,
    MIB,
    RESOURCE,
    SHAPES,
    UNIT,
    UUID,
    UUIDS,
    gpus_of,
    shape_of,
    strike,
)
from ansible_collections.colocation.kubernetes.tests.unit.cluster.scenario_script import loaded
from ansible_collections.colocation.kubernetes.tests.unit.cluster.test_gpu_rounds import A, environment, units


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = loaded("gpu/rounds.py", monkeypatch)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(made, "SECONDS", 30)
    monkeypatch.setattr(made, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return made


class ClusterDouble:
    """API, kubelet, plugin and node in one. With each look at the pods the kubelet does one thing: those that end are
    gone, those that came are served, in any order."""

    def __init__(self, look: Callable[..., Any]) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.held: dict[str, dict[str, list[str]]] = {}
        self.past: list[tuple[str, str, list[str]]] = []  # of pods that ended, until the next one is served
        self.read: list[str] = []
        self.struck: list[str] = []
        self.steers, self.refusal = True, ""
        self.knows = False  # kubelet's pods: it learns of them after its start
        self._look = look
        self._made = 0
        self._chance = random.Random(1)

    def get(self, path: str, **_query: str) -> dict[str, Any]:
        if path.endswith("/serviceaccounts"):
            return {"items": [{}]}
        if path == "/api/v1/nodes/worker1":
            return {"status": {"allocatable": {RESOURCE: str(ALL)}}}
        if not path.endswith("/proxy/pods"):
            self._work()
        elif not self.knows:
            self.knows = True
            return {"items": None}  # as a kubelet says it
        return {"items": [dict(pod) for pod in self.pods.values()]}

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        *_path, name, what = path.split("/")
        if body["kind"] == "Pod":
            self._made += 1
            assert body["metadata"]["name"] not in self.pods
            body["metadata"] |= {"uid": f"uid-{self._made}", "annotations": {}}
            body["status"] = {"phase": "Pending"}
            self.pods[body["metadata"]["name"]] = body
        elif what == "eviction":
            self.pods[name]["metadata"]["deletionTimestamp"] = "now"
        elif what == "binding":
            self.pods[name]["spec"]["nodeName"] = "worker1"
        return body

    def patch(self, path: str, body: dict[str, Any], _kind: str) -> None:
        self.pods[path.rpartition("/")[2]]["metadata"]["annotations"] |= body["metadata"]["annotations"]

    def strike(self, what: str) -> None:
        self.struck.append(what)
        self.knows = False
        for pod in self.pods.values():
            if pod["status"]["phase"] == "Pending" or what == "restart" and shape_of(pod).init:
                self.refuse(pod, f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}")

    def refuse(self, pod: dict[str, Any], why: str) -> None:
        said = f"Pod was rejected: Allocate failed due to {why}, which is unexpected"
        pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": said}

    def look(self, ids: set[str]) -> Any:
        self.read += ids
        known = {self._id(name, one): self._told(name, one) for name, pod in self.pods.items() for one in self._of(pod)}
        held = [
            (self.pods[name]["metadata"]["uid"], one, ids) for name in self.held for one, ids in self.held[name].items()
        ]
        rows = [
            ("a", f"gpu-rounds/{name}", one, *gpus_of(ids), f"{len(ids) * UNIT / 1024:.2f} GiB")
            for name in self.held
            for one, ids in self.held[name].items()
        ]
        page = {
            "summary": "the kubelet watches 1 of 1 resources",
            "problems": [],
            "tables": [{"title": "Holders of GPUs", "rows": rows}],
        }
        return self._look(2.0, 1.0, ALL, [*held, *self.past], page, {id: known[id] for id in ids})

    def _of(self, pod: Mapping[str, Any]) -> list[str]:
        return list(shape_of(pod).wants)

    def _id(self, name: str, container: str) -> str:
        return f"{self.pods[name]['metadata']['uid']}-{container}"

    def _told(self, name: str, container: str) -> list[str]:
        ids = self.held.get(name, {}).get(container, [])
        return [f"{key}={text}" for gpu in gpus_of(ids) for key, text in environment(gpu, len(ids) // GIB).items()]

    def _work(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod["metadata"].get("deletionTimestamp"):
                self.past += [(pod["metadata"]["uid"], *one) for one in self.held.pop(name, {}).items()]
                del self.pods[name]
        waiting = [
            name for name, pod in self.pods.items()
            if pod["status"]["phase"] == "Pending" and pod["spec"].get("nodeName") and name not in self.held
        ]  # fmt: skip
        served = [name for name in self.held if self.pods[name]["status"]["phase"] == "Pending"]
        for name in served:
            self._run(name)
        for name in self._chance.sample(waiting, len(waiting)):
            if self.refusal:
                self.refuse(self.pods[name], self.refusal)
            else:
                self._serve(name)

    def _serve(self, name: str) -> None:
        self.past = []
        pod, taken = self.pods[name], {id for held in self.held.values() for ids in held.values() for id in ids}
        notes, shape = pod["metadata"]["annotations"], shape_of(pod)
        free = {gpu: [id for id in units(gpu, 0, MIB // 1024) if id not in taken] for gpu in UUIDS}
        room = [gpu for gpu in UUIDS if len(free[gpu]) >= shape.size * GIB]
        gpu = notes[UUID] if self.steers and notes.get(UUID) in room else min(room, key=lambda one: len(free[one]))
        held = self.held[name] = {}
        for container, gib in shape.wants.items():
            held[container] = free[gpu][: gib * GIB]
            if container != "i0":
                free[gpu] = free[gpu][gib * GIB :]

    def _run(self, name: str) -> None:
        pod = self.pods[name]
        (gpu,) = gpus_of(id for ids in self.held[name].values() for id in ids)
        pod["metadata"]["annotations"] |= {UUID: gpu, ASSIGNED: "true"}
        ended = {"terminated": {"message": "\n".join(self._told(name, "i0")) + "\n"}}

        def status(one: str) -> dict[str, Any]:
            state = ended if one == "i0" else {"running": {}}
            return {"name": one, "containerID": f"containerd://{self._id(name, one)}", "state": state}

        pod["status"] = {
            "phase": "Running",
            "initContainerStatuses": [status(one) for one in self._of(pod) if one == "i0"],
            "containerStatuses": [status(one) for one in self._of(pod) if one != "i0"],
        }


def begun(rounds: ModuleType, upper: bool = False, count: int = 40) -> tuple[Any, ClusterDouble]:
    cluster = ClusterDouble(rounds.Look)
    made = rounds.Rounds(cluster, cluster, upper, count)
    made.begin()
    return made, cluster


@pytest.mark.parametrize("upper", [False, True])
def test_rounds_of_forty(rounds: ModuleType, upper: bool) -> None:
    made, cluster = begun(rounds, upper)
    told = [made.round(number) for number in range(9)]
    assert cluster.struck == [what for number in range(9) if (what := strike(number, upper))]
    assert all("40 pods run, " in line for line in told)
    assert all("10 new" in line for line in told[1:])
    assert any(", 0 refused" in line for line in told) and any(", 0 refused" not in line for line in told)
    assert len(cluster.read) == len(set(cluster.read)) and not any(id.endswith("-i0") for id in cluster.read)
    made.begin()
    assert not cluster.pods


def test_a_plugin_that_does_not_heed_the_plan(rounds: ModuleType) -> None:
    made, cluster = begun(rounds, upper=True)
    cluster.steers = False
    with pytest.raises(SystemExit, match="containers got a GPU that was booked"):
        for number in range(30):
            made.round(number)


FULL = f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 0"


@pytest.mark.parametrize(
    ("why", "number", "said"),
    [
        ("rpc error: code = Unknown desc = none has more than 4 free", 0, "not for want of the kubelet or the plugin"),
        (FULL, 0, "not for want of the kubelet or the plugin"),
        (FULL, 1, "not for want of the kubelet or the plugin"),
        ("previously allocated devices are no longer healthy", 0, "not for want of the kubelet or the plugin"),
        ("rpc error: code = Unavailable desc = connection refused", 2, "both were there all the time"),
    ],
)
def test_a_refusal_that_is_not_put_up_with(rounds: ModuleType, why: str, number: int, said: str) -> None:
    made, cluster = begun(rounds)
    cluster.refusal = why
    with pytest.raises(SystemExit, match=said):
        made.round(number)


def test_a_kubelet_that_begins_with_a_full_record(rounds: ModuleType) -> None:
    made, cluster = begun(rounds)
    refuse = cluster.refuse
    cluster.refuse = lambda pod, _why: refuse(pod, FULL)  # type: ignore[method-assign]
    for number in (2, 5):
        assert ", 0 refused" in made.round(number)
    assert ", 0 refused" not in made.round(6)
    with pytest.raises(SystemExit, match="not for want of the kubelet or the plugin"):
        made.round(7)  # the kubelet stays, and what ended is not in its record


def test_a_pod_that_ran_is_refused(rounds: ModuleType) -> None:
    made, cluster = begun(rounds)
    made.round(2)
    begin = cluster.strike

    def strike(what: str) -> None:
        begin(what)
        pod = next(pod for pod in cluster.pods.values() if rounds.state(pod) == "Running" and not shape_of(pod).init)
        cluster.refuse(pod, f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}")

    cluster.strike = strike  # type: ignore[method-assign]
    with pytest.raises(SystemExit, match="was refused, and it ran"):
        made.round(3)


def spoil_environment(cluster: ClusterDouble) -> None:
    cluster._told = lambda name, container: [f"{UUID}={A}"]  # type: ignore[method-assign]


def lose_a_pod(cluster: ClusterDouble) -> None:
    begin = cluster.strike

    def strike(what: str) -> None:
        begin(what)
        name = next(iter(cluster.held))
        del cluster.held[name], cluster.pods[name]

    cluster.strike = strike  # type: ignore[method-assign]


def forget_a_holder(cluster: ClusterDouble) -> None:
    look = cluster.look

    def short(ids: set[str]) -> Any:
        found = look(ids)
        del found.page["tables"][0]["rows"][:1]
        return found

    cluster.look = short  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_environment, "was told"),
        (lose_a_pod, "is not there any more"),
        (forget_a_holder, "the agent does not know the holder"),
    ],
)
def test_what_does_not_come_true(rounds: ModuleType, spoil: Callable[[ClusterDouble], None], said: str) -> None:
    made, cluster = begun(rounds, count=8)
    made.round(2)
    spoil(cluster)
    with pytest.raises(SystemExit, match=f"(?s)not within 30 s.*{said}"):
        made.round(3)


def test_all_shapes_can_be_read_again(rounds: ModuleType) -> None:
    for shape in SHAPES:
        assert shape_of(rounds.document("name", shape, True)) == shape


# -- what is run on the node ------------------------------------------------------------------------------------


def on_node(place: Path, program: list[str], text: str) -> str:
    """Run here what is run there, with its files and its systemctl in a folder."""
    text = text.replace('"/run/', f'"{place}/run/').replace('"/var/', f'"{place}/var/')
    text = text.replace("touch /run/", f"touch {place}/run/")
    path = f"{place}/bin:{os.environ['PATH']}"
    done = subprocess.run(program, input=text, capture_output=True, text=True, check=True, env={"PATH": path})
    return done.stdout


def test_what_is_read_on_the_node(rounds: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = tmp_path / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    config = tmp_path / "run/containerd/io.containerd.runtime.v2.task/k8s.io/7/config.json"
    for file in (checkpoint, config):
        file.parent.mkdir(parents=True)
    config.write_text(json.dumps({"process": {"env": ["PATH=/bin", f"{UUID}={A}"]}}))
    ids = {"0": ["a-1"], "1": ["a-2"]}
    entry = {"PodUID": "uid", "ContainerName": "c0", "ResourceName": RESOURCE, "DeviceIDs": ids}
    others = {**entry, "ResourceName": "other"}
    data = {"PodDeviceEntries": [entry, others], "RegisteredDevices": {RESOURCE: ["a-1", "a-2", "a-3"]}}
    checkpoint.write_text(json.dumps({"Data": data}))
    python = [sys.executable, "-"]
    monkeypatch.setattr(rounds.Node, "run", lambda _node, _program, text: on_node(tmp_path, python, text))
    found = rounds.Node(["ssh"]).look({"7"})
    assert found.environment == {"7": [f"{UUID}={A}"]}
    assert found.ids("uid") == {"c0": ["a-1", "a-2"]} and len(found.held) == 1
    assert (found.registered, found.struck, found.back()) == (3, 0.0, False)
    checkpoint.write_text(json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": None}}))
    assert rounds.Node(["ssh"]).look(()).held == []


SYSTEMCTL = """#!/bin/sh
cd {place}
echo "$*" >> calls
case $1 in
  show) cat process ;;
  kill) echo 0 > process ;;
  is-active) [ "$(cat process)" != 0 ] ;;
esac
"""


def test_what_is_done_to_the_node(rounds: ModuleType, tmp_path: Path) -> None:
    for folder in ("bin", "run"):
        (tmp_path / folder).mkdir()
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.write_text(SYSTEMCTL.format(place=tmp_path))
    systemctl.chmod(0o755)
    (tmp_path / "bin" / "sleep").write_text(f"#!/bin/sh\necho 8 > {tmp_path}/process\n")  # the unit is started again
    (tmp_path / "bin" / "sleep").chmod(0o755)
    (tmp_path / "process").write_text("7\n")
    on_node(tmp_path, ["sh", "-s"], rounds.KILL)
    assert (tmp_path / "run/gpu-rounds").exists()
    assert (tmp_path / "process").read_text() == "8\n"
    assert "kill --signal=SIGKILL colocation-device-plugin" in (tmp_path / "calls").read_text()
    (tmp_path / "calls").unlink()
    on_node(tmp_path, ["sh", "-s"], rounds.RESTART)
    assert (tmp_path / "calls").read_text().splitlines() == ["stop kubelet", "start kubelet"]


def test_only_who_was_not_reached_is_struck_again(rounds: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [rounds.Unreached("no route"), rounds.Failed("the agent does not come")]

    def run(_node: object, _program: str, _text: str) -> str:
        raise problems.pop(0)

    monkeypatch.setattr(rounds.Node, "run", run)
    with pytest.raises(rounds.Failed, match="does not come"):
        rounds.Node(["ssh"]).strike("kill")
    assert not problems
