# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The device plugin as a process, with a double of the kubelet over real gRPC and real sockets."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import (
    PACKAGES,
    WATCHDOG,
    AgentProcess,
    until,
)
from ansible_collections.colocation.kubernetes.tests.contract.agents.kubelet_double import KubeletDouble

GPU = "mock.com/gpu"
TEN = "mock: {mock.com/gpu: 10}\n"
MOST_IDLE = 0.02  # of a processor, while nothing happens; it looks around once a second
FAST = "retry_seconds: 0.2\nstream_grace_seconds: 1.5\n"
Start = Callable[[str], AgentProcess]


def registered(kubelet: KubeletDouble, resource: str = GPU, devices: int = 10) -> None:
    def shown() -> bool:
        return any(len(plugin.lists[-1]) == devices for plugin in kubelet.watched(resource))

    until(f"{devices} of {resource} watched", shown)


def test_ten_devices_are_offered_and_a_container_gets_those_it_asked_for(kubelet: KubeletDouble, start: Start) -> None:
    agent = start(TEN)
    registered(kubelet)
    (plugin,) = kubelet.plugins
    assert plugin.lists == [[(f"mock.com_gpu-{n}", "Healthy") for n in range(10)]]
    answer = plugin.allocate(["mock.com_gpu-3", "mock.com_gpu-4"], ["mock.com_gpu-9"])
    environments = [dict(part.envs) for part in answer.container_responses]
    assert environments == [{"MOCK_COM_GPU": "mock.com_gpu-3,mock.com_gpu-4"}, {"MOCK_COM_GPU": "mock.com_gpu-9"}]
    assert agent.notified("READY=1")


def test_a_device_that_is_not_offered_is_refused(kubelet: KubeletDouble, start: Start) -> None:
    start(TEN)
    registered(kubelet)
    with pytest.raises(grpc.RpcError, match="no device mock.com_gpu-10"):
        kubelet.plugins[0].allocate(["mock.com_gpu-10"])


def test_sockets_are_roots_alone_and_the_link_leads_to_this_incarnation(
    kubelet: KubeletDouble, start: Start, place: Path
) -> None:
    start(TEN)
    registered(kubelet)
    link = place / "k" / "mock.com_gpu.sock"
    assert os.readlink(link) == kubelet.plugins[0].endpoint
    assert stat.S_IMODE(link.stat().st_mode) == 0o600


def test_a_list_is_sent_when_it_changes_and_only_then(kubelet: KubeletDouble, start: Start) -> None:
    agent = start(TEN)
    registered(kubelet)
    agent.reload()
    until("the same configuration is taken", lambda: "configuration reloaded" in agent.log())
    agent.configure(agent.file.read_text().partition("\n")[2].replace("gpu: 10", "gpu: 12"))
    agent.reload()
    registered(kubelet, devices=12)
    assert [len(devices) for devices in kubelet.plugins[0].lists] == [10, 12]
    assert len(kubelet.plugins) == 1
    assert agent.notified("RELOADING=1")


def test_the_devices_of_the_list_that_is_out_are_given_while_the_next_one_is_refused(
    kubelet: KubeletDouble, start: Start
) -> None:
    agent = start(TEN)
    registered(kubelet)
    agent.configure(agent.file.read_text().partition("\n")[2].replace("gpu: 10", "gpu: 1000000"))
    agent.reload()
    until("that is told", lambda: any("1000000 devices make a list" in said for said in agent.status().problems))
    (answer,) = kubelet.plugins[0].allocate(["mock.com_gpu-3"]).container_responses
    assert dict(answer.envs) == {"MOCK_COM_GPU": "mock.com_gpu-3"}
    with pytest.raises(grpc.RpcError, match="mock.com/gpu has no device mock.com_gpu-10"):
        kubelet.plugins[0].allocate(["mock.com_gpu-10"])
    kubelet.stop()
    kubelet.start()
    registered(kubelet)  # with the ten that it had
    until("that is told again", lambda: any("1000000 devices make a list" in said for said in agent.status().problems))
    agent.configure(agent.file.read_text().partition("\n")[2].replace("gpu: 1000000", "gpu: 5"))
    agent.reload()
    until("the good list is out", lambda: len(kubelet.plugins[0].lists[-1]) == 5)
    until("it is healthy again", lambda: agent.status().healthy)


def test_resources_come_and_go_with_the_configuration(kubelet: KubeletDouble, start: Start, place: Path) -> None:
    agent = start(TEN)
    registered(kubelet)
    agent.configure(f"kubelet_dir: {place}/k\nmock: {{mock/gpu: 3}}\n")
    agent.reload()
    registered(kubelet, "mock/gpu", 3)
    until("the first is gone", lambda: not kubelet.watched(GPU))
    assert kubelet.plugins[0].lists == [[(f"mock.com_gpu-{n}", "Healthy") for n in range(10)]]  # no empty list
    assert not list((place / "k").glob("mock.com_gpu*"))


def test_a_bad_configuration_changes_nothing_and_is_told(kubelet: KubeletDouble, start: Start) -> None:
    agent = start(TEN)
    registered(kubelet)
    good = agent.file.read_text()
    agent.file.write_text(good.replace("gpu: 10", "gpu: many"))
    agent.reload()
    told = f'{agent.file}:3: mock."mock.com/gpu": must be a whole number, not "many"'
    until("that alone is told", lambda: [told in problem for problem in agent.status().problems] == [True])
    assert len(kubelet.plugins[0].lists) == 1
    agent.file.write_text(good)
    agent.reload()
    until("it is healthy again", lambda: agent.status().healthy)


def test_a_kubelet_that_starts_anew_gets_a_new_registration_on_a_new_socket(
    kubelet: KubeletDouble, start: Start, place: Path
) -> None:
    start(TEN)
    registered(kubelet)
    sockets = [kubelet.plugins[0].endpoint]
    for _round in range(2):
        kubelet.stop()
        kubelet.start()
        registered(kubelet)
        sockets.append(kubelet.plugins[0].endpoint)
    assert len(set(sockets)) == 3
    assert {file.name for file in (place / "k").iterdir()} == {"kubelet.sock", "mock.com_gpu.sock", sockets[-1]}


def test_a_socket_that_was_removed_is_replaced(kubelet: KubeletDouble, start: Start, place: Path) -> None:
    start(TEN)
    registered(kubelet)
    (place / "k" / kubelet.plugins[0].endpoint).unlink()
    until("a second registration", lambda: len(kubelet.plugins) == 2)
    until("the first stream ends", lambda: kubelet.plugins[0].ended)
    registered(kubelet)


def test_a_kubelet_that_does_not_watch_is_asked_again(kubelet: KubeletDouble, start: Start) -> None:
    kubelet.watches = False
    agent = start(TEN + FAST)
    until("a second registration", lambda: len(kubelet.plugins) >= 2)
    assert not agent.status().healthy
    kubelet.watches = True
    registered(kubelet)
    until("it is healthy", lambda: agent.status().healthy)


def test_a_kubelet_that_comes_late_is_waited_for(kubelet: KubeletDouble, start: Start, place: Path) -> None:
    kubelet.stop()
    (place / "k" / "kubelet.sock").unlink(missing_ok=True)
    agent = start(TEN)
    until("systemd is told", lambda: agent.notified("READY=1"))
    assert agent.status().problems == (f"{GPU}: the kubelet is not there",)
    kubelet.start()
    registered(kubelet)


def test_a_refusal_is_told_and_tried_again(kubelet: KubeletDouble, start: Start) -> None:
    kubelet.refusal = "this resource is taken"
    agent = start(TEN + FAST)
    until("the log has it", lambda: "this resource is taken" in agent.log())
    assert "UNKNOWN: this resource is taken" in agent.status().problems[0]
    kubelet.refusal = ""
    registered(kubelet)
    until("it is healthy", lambda: agent.status().healthy)


def test_a_dead_socket_without_a_kubelet_is_no_kubelet(kubelet: KubeletDouble, start: Start, place: Path) -> None:
    kubelet.stop()
    (place / "k" / "kubelet.sock").touch()
    agent = start(TEN + "retry_seconds: 600\n")
    until("it fails", lambda: "registration failed" in agent.log())
    kubelet.start()
    registered(kubelet)


def test_leftovers_of_a_killed_agent_go_with_the_next(kubelet: KubeletDouble, start: Start, place: Path) -> None:
    agent = start(TEN)
    registered(kubelet)
    agent.process.kill()
    agent.process.wait()
    (place / "notify").unlink()
    other = place / "k" / "other.0123456789abcdef.sock"
    other.touch()
    start(TEN)
    until("a second registration", lambda: len(kubelet.plugins) == 2)
    registered(kubelet)
    names = {"kubelet.sock", "mock.com_gpu.sock", other.name, kubelet.plugins[1].endpoint}
    assert {file.name for file in (place / "k").iterdir()} == names


def test_sigterm_ends_the_stream_without_an_empty_list_and_leaves_nothing(
    kubelet: KubeletDouble, start: Start, place: Path
) -> None:
    agent = start(TEN)
    registered(kubelet)
    assert agent.end() == 0
    until("the stream ends", lambda: kubelet.plugins[0].ended == "the plugin ended it")
    assert len(kubelet.plugins[0].lists) == 1
    assert [file.name for file in (place / "k").iterdir()] == ["kubelet.sock"]
    assert agent.notified("STOPPING=1")


def test_the_watchdog_is_fed_while_the_kubelet_refuses(kubelet: KubeletDouble, start: Start) -> None:
    kubelet.refusal = "no"
    agent = start(TEN + FAST)

    def fed() -> bool:
        return agent.notified("WATCHDOG=1") and agent.told.count("WATCHDOG=1") > 2

    until("the watchdog is fed", fed, WATCHDOG)


def test_200_000_devices_reach_the_kubelet_and_can_be_had(kubelet: KubeletDouble, start: Start) -> None:
    agent = start("mock: {mock.com/gpu: 200000}\n")
    registered(kubelet, devices=200_000)
    until("it idles", lambda: agent.share_of_a_processor(3) < MOST_IDLE)
    plugin = kubelet.plugins[0]
    ids = [id for id, _health in plugin.lists[0]]
    (given,) = plugin.allocate(ids[-3:]).container_responses
    assert given.envs["MOCK_COM_GPU"].split(",") == ids[-3:]
    until("it is healthy", lambda: agent.status().healthy)


def test_a_list_that_the_kubelet_can_not_take_is_not_sent(kubelet: KubeletDouble, start: Start) -> None:
    agent = start("mock: {mock.com/gpu: 300000, mock/gpu: 1}\n")
    registered(kubelet, "mock/gpu", 1)
    until("it is told", lambda: "make the unit of this resource" in " ".join(agent.status().problems))
    assert not kubelet.watched(GPU)
    until("it idles", lambda: agent.share_of_a_processor(3) < MOST_IDLE)


def test_the_pages_and_the_command_say_the_same(kubelet: KubeletDouble, start: Start) -> None:
    agent = start(TEN)
    registered(kubelet)
    until("it is healthy", lambda: agent.status().healthy)

    def page(name: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/{name}", timeout=5) as answer:
            text: str = answer.read().decode()
        return text

    assert page("healthz") == "ok\n"
    assert f'colocation_devices{{resource="{GPU}"}} 10\n' in page("metrics")
    assert GPU in page("")
    command = [sys.executable, "-m", "colocation.device_plugin", "status", "--config", agent.file]
    environment = {"PYTHONPATH": str(PACKAGES)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "healthy, the kubelet watches 1 of 1 resources" in said
    agent.end()
    after = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert after.returncode == 2
    assert "does the service run?" in after.stderr
