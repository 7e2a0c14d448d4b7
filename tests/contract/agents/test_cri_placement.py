# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The CRI proxy as a process on a made-up Hygon machine, between a double of the runtime and a kubelet's calls, over
real gRPC: where containers go, and that books, runtime and cgroups agree after anything."""

from __future__ import annotations

import functools
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents import agent_process
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import PACKAGES, AgentProcess
from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import until as until_within
from ansible_collections.colocation.kubernetes.tests.contract.agents.runtime_double import KubeletCalls, RuntimeDouble
from ansible_collections.colocation.kubernetes.tests.ports import free_port
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, write

ALL = "0-63"
BLOCKS = {"TEST_COM_COLOCATION_MEMORY": "CM-1-1,CM-1-2,CM-1-3"}
Run = Callable[..., AgentProcess]
until = functools.partial(until_within, seconds=90)  # a Python on a machine that does much else takes its time


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(MACHINES["hygon-c86"], tmp_path_factory.mktemp("hygon"))


@pytest.fixture
def runtime(place: Path) -> Iterator[RuntimeDouble]:
    double = RuntimeDouble(place / "runtime.sock", place / "cgroup", ALL)
    double.start()
    yield double
    double.stop()


@pytest.fixture
def kubelet(place: Path) -> Iterator[KubeletCalls]:
    calls = KubeletCalls(place / "cri.sock")
    yield calls
    calls.close()


@pytest.fixture
def proxy(place: Path, machine: Path) -> Iterator[Run]:
    """Start the agent, as often as wanted; what is given is added to its configuration."""
    started: list[AgentProcess] = []

    def run(more: str = "placement: {check_seconds: 1}\n") -> AgentProcess:
        made = AgentProcess(place, config(place, machine) + more, module="cri_proxy")
        started.append(made)
        until("the agent is ready", lambda: made.notified("READY=1"))
        return made

    yield run
    for agent in started:
        agent.close()


def config(place: Path, machine: Path) -> str:
    keys = {
        "listen": place / "cri.sock",
        "runtime": f"unix://{place}/runtime.sock",
        "state_dir": place / "state",
        "cgroup_dir": place / "cgroup",
        "kubelet_dir": place / "k",
        "sysfs_root": machine,
    }
    return "".join(f"{key}: {value}\n" for key, value in keys.items())


def restart_place(place: Path) -> None:
    """AgentProcess binds its notification socket anew."""
    (place / "notify").unlink()


def cpus_in_books(agent: AgentProcess) -> dict[str, str]:
    (table,) = agent.status().tables
    return {str(row[0]): str(row[1]) for row in table.rows}


def metrics(agent: AgentProcess) -> dict[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics", timeout=60) as answer:
        return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))


def test_growing_counts_get_places_by_the_table(runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run) -> None:
    proxy()
    shapes = [(500, 8), (8000, 8), (9000, 16), (17_000, 24), (25_000, 32), (33_000, 64)]
    for number, (milli, size) in enumerate(shapes):
        container = kubelet.run(f"p{number}", milli)
        cpus = runtime.effective(container)
        count = sum(int(b or a) - int(a) + 1 for a, _dash, b in (part.partition("-") for part in cpus.split(",")))
        assert count == size, (milli, cpus)
    assert runtime.updates == []  # all by the edit alone


def test_blocks_become_a_memory_limit(runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run) -> None:
    proxy("blocks: {per_numa_node: true}\n")
    container = kubelet.run("batch", environment=BLOCKS)
    assert runtime.containers[container].config.linux.resources.memory_limit_in_bytes == 3 * 512 << 20
    assert runtime.effective(container).startswith("8-11")  # on the node of its blocks


def test_what_runs_already_is_adopted_and_placed(runtime: RuntimeDouble, place: Path, proxy: Run) -> None:
    direct = KubeletCalls(place / "runtime.sock")
    first, second = direct.run("first", 4000), direct.run("second", 12_000)
    system = direct.run("dns", 100, namespace="kube-system")
    direct.close()
    agent = proxy()
    until("all placed", lambda: ALL not in (runtime.effective(first), runtime.effective(second)))
    assert runtime.effective(system) == ALL
    assert cpus_in_books(agent) == {
        "default/first/main": runtime.effective(first),
        "default/second/main": runtime.effective(second),
    }


@pytest.mark.parametrize("tells", [True, False], ids=["containerd-1.7", "containerd-1.6"])
def test_a_killed_proxy_knows_again_what_runs(
    tells: bool, runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    runtime.tells_resources = tells
    agent = proxy()
    kept = [kubelet.run(f"p{number}", milli) for number, milli in enumerate((1000, 12_000, 4000))]
    ends = kubelet.run("ends", 1000)
    before = {key: runtime.effective(key) for key in kept}
    until("the state is saved", lambda: ends in (place / "state/state.json").read_text())
    agent.process.kill()
    agent.close()
    runtime.end(ends)
    if tells:
        (place / "state/state.json").unlink()
    restart_place(place)
    agent = proxy()
    until("all adopted", lambda: len(cpus_in_books(agent)) == 3)
    assert {key: runtime.effective(key) for key in kept} == before
    assert sorted(cpus_in_books(agent).values()) == sorted(before.values())
    assert runtime.updates == []


def test_a_dropped_cpuset_is_mended_and_an_unseen_exit_is_found(
    runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run
) -> None:
    agent = proxy()
    one, other = kubelet.run("one", 1000), kubelet.run("other", 1000)
    placed = runtime.effective(one)
    runtime.drop_cpuset(one)
    runtime.end(other)
    until("mended", lambda: runtime.effective(one) == placed)
    until("forgotten", lambda: list(cpus_in_books(agent)) == ["default/one/main"])
    assert agent.status().healthy


def test_an_exit_is_found_without_waiting_for_a_round(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    agent = proxy("placement: {check_seconds: 3600}\n")
    state = place / "state/state.json"
    ends = kubelet.run("ends", 1000)
    until("the state is saved", lambda: state.exists() and ends in state.read_text())
    stays = kubelet.run("stays", 1000)
    until("the agent looked again", lambda: stays in state.read_text())
    runtime.end(ends)
    until("forgotten", lambda: list(cpus_in_books(agent)) == ["default/stays/main"])


def test_memory_nodes_that_were_dropped_are_mended_too(
    runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run
) -> None:
    proxy("placement: {check_seconds: 1}\npolicy: {topology-aware: {PinMemory: true}}\n")
    container = kubelet.run("one", 1000)
    assert runtime.mems(container) == "0"
    runtime.drop_mems(container)
    until("mended", lambda: runtime.mems(container) == "0")


def test_a_page_whose_address_is_taken_keeps_no_kubelet_from_its_runtime(
    runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        monkeypatch.setattr(agent_process, "free_port", lambda: port)
        agent = proxy()
        assert runtime.effective(kubelet.run("one", 1000)) != ALL
        assert agent.log().count("no status page") == 1
    until("the page is there", lambda: "http://" in agent.log().partition("no status page")[2])
    assert agent.status().healthy


def test_a_restart_into_a_broken_configuration_takes_nobody_out_of_its_place(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, machine: Path, proxy: Run
) -> None:
    agent = proxy()
    container = kubelet.run("one", 1000)
    placed = runtime.effective(container)
    until("the state is saved", (place / "state/state.json").exists)
    agent.end()
    restart_place(place)
    agent = proxy("placement: {ccx: l4}\n")
    kept = (place / "state/state.json").read_text()
    assert container in kept
    until("a round was made", lambda: metrics(agent)['colocation_cri_rounds_total{result="done"}'] != "0")
    assert (runtime.effective(container), runtime.updates) == (placed, [])
    agent.configure(config(place, machine) + "placement: {check_seconds: 1}\n")
    agent.reload()
    until("it is known again", lambda: cpus_in_books(agent) == {"default/one/main": placed})
    assert (runtime.effective(container), runtime.updates) == (placed, [])


def test_a_restart_with_a_namespace_exempt_gives_all_cpus_back(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    agent = proxy()
    container = kubelet.run("one", 1000)
    until("the state is saved", lambda: container in (place / "state/state.json").read_text())
    agent.end()
    restart_place(place)
    proxy("placement: {check_seconds: 1, exempt_namespaces: [default]}\n")
    until("all CPUs again", lambda: runtime.effective(container) == ALL)


def test_those_of_reserved_namespaces_are_put_on_the_systems_cpus_and_kept_there(
    runtime: RuntimeDouble, place: Path, proxy: Run
) -> None:
    direct = KubeletCalls(place / "runtime.sock")
    system = direct.run("dns", 100, namespace="kube-system")
    direct.close()
    reserved = 'ReservedResources: {CPU: "cpuset:0-1"}, topology-aware: {ReservedPoolNamespaces: [kube-system]}'
    agent = proxy(f"placement: {{check_seconds: 1}}\npolicy: {{{reserved}}}\n")
    until("it is there", lambda: runtime.effective(system) == "0-1")
    runtime.drop_cpuset(system)
    until("it is there again", lambda: runtime.effective(system) == "0-1")
    assert metrics(agent)['colocation_cri_containers{kind="system"}'] == "1"


def test_a_runtime_that_restarts_is_waited_for(runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run) -> None:
    agent = proxy()
    container = kubelet.run("one", 1000)
    runtime.stop()
    until("told", lambda: not agent.status().healthy)
    runtime.start()
    until("well again", lambda: agent.status().healthy)
    assert list(cpus_in_books(agent)) == ["default/one/main"] and container in runtime.alive()


def test_the_timer_moves_a_container_to_what_became_empty(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    proxy("placement: {check_seconds: 1, rebalance_seconds: 1}\n")
    containers = [kubelet.run(f"p{number}", 4000) for number in range(9)]  # on eight CCXs
    shared = runtime.effective(containers[0])
    mates = [one for one in containers if runtime.effective(one) == shared]
    assert len(mates) == 2
    runtime.end(containers[1])
    until("one moved", lambda: len({runtime.effective(one) for one in runtime.alive()}) == 8)
    assert len(runtime.updates) == 1 and runtime.updates[0][0] in mates


def test_switching_off_gives_all_cpus_back_and_passes_calls_on(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, machine: Path, proxy: Run
) -> None:
    agent = proxy()
    container = kubelet.run("one", 1000)
    agent.configure(config(place, machine) + "policy: {Active: none}\n")
    agent.reload()
    until("all CPUs again", lambda: runtime.effective(container) == ALL)
    assert runtime.effective(kubelet.run("two", 1000)) == ALL


@pytest.mark.parametrize("content", ["policy: [\n", "placement: {ccx: l4}\n", "\x00"])
def test_with_a_broken_configuration_pods_start_unpinned(
    content: str, runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, machine: Path
) -> None:
    agent = AgentProcess(place, config(place, machine) + content, module="cri_proxy")
    try:
        until("it serves", (place / "cri.sock").exists)
        assert runtime.effective(kubelet.run("one", 1000)) == ALL
        assert agent.log().count("configuration rejected") == 1
    finally:
        agent.close()


def test_a_full_disk_is_told_and_keeps_nobody_from_a_place(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    (place / "state").write_text("no folder can be made here, as on a disk that is full")
    agent = proxy()
    assert runtime.effective(kubelet.run("one", 1000)) != ALL
    until("told", lambda: any("can't be saved" in problem for problem in agent.status().problems))
    assert agent.log().count("state can't be saved") == 1
    assert metrics(agent)["colocation_cri_state_unsaved"] == "1"
    (place / "state").unlink()
    until("saved", lambda: agent.status().healthy and metrics(agent)["colocation_cri_state_unsaved"] == "0")


def test_the_machine_that_makes_no_sense_places_nobody(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    agent = proxy()
    agent.configure(config(place, place / "nothing"))
    agent.reload()
    until("told", lambda: any("Nothing is placed" in problem for problem in agent.status().problems))
    assert runtime.effective(kubelet.run("one", 1000)) == ALL


def test_a_kubelet_that_pins_is_let_be(runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run) -> None:
    (place / "k").mkdir(exist_ok=True)
    (place / "k/cpu_manager_state").write_text('{"policyName":"static","defaultCpuSet":"0-63"}')
    agent = proxy()
    container = kubelet.run("one", 1000)
    runtime.drop_cpuset(container)
    until("told", lambda: any("CPU Manager" in str(value) for _name, value in agent.status().facts))
    assert runtime.updates == []


def test_cgroups_that_are_not_found_are_told(
    runtime: RuntimeDouble, kubelet: KubeletCalls, place: Path, proxy: Run
) -> None:
    agent = proxy()
    kubelet.run("one", 1000)
    (place / "cgroup").rename(place / "elsewhere")
    told = f"no container's cgroup was found in {place}/cgroup (cgroup_dir)"
    until("told", lambda: any(told in str(value) for _name, value in agent.status().facts))
    assert agent.status().healthy


def command(agent: AgentProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "colocation.cri_proxy", *words, "--config", str(agent.file)],
        env={"PYTHONPATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_line_draws_and_resets(runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run) -> None:
    agent = proxy()
    container = kubelet.run("one", 1000)
    until("booked", lambda: cpus_in_books(agent) != {})
    drawn = command(agent, "topology").stdout
    assert "CCX 0" in drawn and "• default/one/main  1 CPU  0-3,32-35" in drawn
    document = json.loads(command(agent, "topology", "--json").stdout)
    first = document["sockets"][0]["numas"][0]["ccxs"][0]
    assert [one["name"] for one in first["containers"]] == ["default/one/main"]
    assert command(agent, "topology", "--svg").stdout.startswith("<svg ")
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/", timeout=60) as answer:
        page = answer.read().decode()
    assert "default/one/main · 1 CPU</text>" in page[page.index("<svg ") : page.index("</svg>")]
    assert command(agent, "status").returncode == 0
    assert command(agent, "--check-config").stdout.endswith("good\n")
    assert command(agent, "--reset-config").returncode == 0
    refused = command(agent, "--reset-policy")
    assert refused.returncode == 1 and "systemctl stop" in refused.stderr
    agent.end()
    state = agent.file.parent / "state/state.json"
    state.rename(agent.file.parent / "elsewhere")
    unknown = command(agent, "--reset-policy")
    assert unknown.returncode == 1 and "no record of what was placed; 1 containers" in unknown.stderr
    (agent.file.parent / "elsewhere").rename(state)
    reset = command(agent, "--reset-policy")
    assert (reset.returncode, runtime.effective(container)) == (0, ALL), reset.stderr
    assert runtime.mems(container) == "0-3"
    again = command(agent, "--reset-policy")
    assert (again.returncode, again.stdout) == (0, "Nothing is placed.\n")


def test_it_is_small_and_says_how_it_is(runtime: RuntimeDouble, kubelet: KubeletCalls, proxy: Run) -> None:
    agent = proxy()
    for number in range(50):
        kubelet.run(f"p{number}", 250)
    lines = metrics(agent)
    assert lines['colocation_cri_containers{kind="online"}'] == "50"
    assert lines["colocation_cri_policy_active"] == "1"
    assert int(lines["process_resident_memory_bytes"]) < 40 << 20
