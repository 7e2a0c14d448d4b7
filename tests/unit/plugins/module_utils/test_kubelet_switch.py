# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelet sent through the proxy and back, on a made-up node whose systemd is a double."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_switch import (
    Outcome,
    Switch,
    SwitchError,
    Wish,
    World,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import (
    FakeSystemd,
    killed_at,
)

PROXY, RUNTIME = "/var/run/cri-resmgr/cri-resmgr.sock", "/run/containerd/containerd.sock"
CONFIG = "var/lib/kubelet/config.yaml"
INSTANCE = "var/lib/kubelet/instance-config.yaml"
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
BOOT = 1_700_000_000


class KubeletDouble(FakeSystemd):
    """systemd, and the kubelet that it restarts: its process reads flags and configuration when it starts."""

    version = "1.36.3"
    ready_with: Callable[[str], bool]
    starts = 0
    read_config = ""  # what the running kubelet has read
    clock_now = BOOT + 1000.0

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0].endswith("kubelet"):
            return 0, f"Kubernetes v{self.version}\n", ""
        if command[:2] == ["systemctl", "restart"] and command[-1] == "kubelet.service":
            self.start_kubelet()
        return super().__call__(command)

    def start_kubelet(self) -> None:
        self.starts += 1
        self.clock_now += 10
        flags = (self.root / FLAGS).read_text().partition('"')[2].rpartition('"')[0].split()
        arguments = ["/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", *flags]
        place = self.root / "proc/42"
        place.mkdir(parents=True, exist_ok=True)
        (place / "comm").write_text("kubelet\n")
        (place / "cmdline").write_text("\0".join(arguments) + "\0")
        (place / "cgroup").write_text("0::/system.slice/kubelet.service\n")
        ticks = int(self.clock_now)
        self.read_config = (self.root / CONFIG).read_text()
        (place / "stat").write_text(f"42 (kube let) S {'0 ' * 18}{ticks} 0\n")


class Node:
    """A made-up node with a kubelet that runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.systemd = KubeletDouble(root)
        self.systemd.install("kubelet.service", active="active", enablement="enabled")
        for path, text in {
            CONFIG: f"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix://{RUNTIME}\n",
            INSTANCE: f"containerRuntimeEndpoint: unix://{RUNTIME}\n",
            FLAGS: 'KUBELET_KUBEADM_ARGS=""\n',
            "usr/bin/kubelet": "",
        }.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (root / "usr/bin/kubelet").chmod(0o755)
        self.systemd.start_kubelet()
        self.systemd.starts = 0
        self.served = {PROXY.replace("/var/run", "/run"): {"a", "b"}, RUNTIME: {"a", "b"}}
        self.not_ready = ""  # why the node is not
        self.annotation = ""
        self.configz = ""

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def go(self, proxied: bool = True, check: bool = False) -> Outcome:
        return self.switch(proxied, check).go()

    def switch(self, proxied: bool = True, check: bool = False) -> Switch:
        ledger = Ledger(str(self.root / "var/lib/colocation"), "kubelet_endpoint", check)
        run = self.systemd
        systemd = Systemd(run, str(self.root), clock=run.clock, sleep=run.sleep)
        world = World(self._containers, self._ready, self._annotate, lambda: self.configz, lambda: run.clock_now)
        return Switch(Wish(PROXY, RUNTIME, proxied, 20), ledger, systemd, world, str(self.root))

    def _containers(self, socket: str) -> set[str]:
        if socket not in self.served:
            raise OSError(f"{socket}: nobody answers")
        return self.served[socket]

    def _ready(self, _since: float) -> Readiness:
        return Readiness(not self.not_ready or PROXY not in self.text(CONFIG), self.not_ready)

    def _annotate(self, endpoint: str, check: bool) -> bool:
        changed = bool(self.annotation) and self.annotation != endpoint
        if changed and not check:
            self.annotation = endpoint
        return changed


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_kubelet_goes_through_the_proxy_and_a_second_run_does_nothing(node: Node) -> None:
    done = node.go()
    assert (done.changed, done.restarted, node.systemd.starts) == (True, True, 1)
    assert PROXY in node.text(CONFIG) and PROXY in node.text(INSTANCE)
    again = node.go()
    assert (again.changed, again.restarted, node.systemd.starts) == (False, False, 1)


ELSEWHERE = "etc/kubernetes/kubelet/config.json"
UNIT = "usr/lib/systemd/system/kubelet.service"


def test_a_stopped_kubelet_comes_back_from_a_file_that_only_its_unit_names(node: Node) -> None:
    (node.root / ELSEWHERE).parent.mkdir(parents=True)
    before = json.dumps({"kind": "KubeletConfiguration", "containerRuntimeEndpoint": f"unix://{RUNTIME}"})
    (node.root / ELSEWHERE).write_text(before)
    (node.root / INSTANCE).unlink()
    (node.root / FLAGS).write_text(f'KUBELET_KUBEADM_ARGS="--config=/{ELSEWHERE}"\n')
    (node.root / UNIT).parent.mkdir(parents=True, exist_ok=True)
    (node.root / UNIT).write_text(f"[Service]\nExecStart=/usr/bin/kubelet --config=/{ELSEWHERE}\n")
    node.systemd.start_kubelet()
    node.go()
    assert PROXY in node.text(ELSEWHERE)
    shutil.rmtree(node.root / "proc/42")
    assert node.go(proxied=False).changed
    assert json.loads(node.text(ELSEWHERE)) == json.loads(before)
    assert not (node.root / "var/lib/colocation").exists()


def test_what_still_names_the_proxy_is_not_forgotten(node: Node) -> None:
    """Where neither a process nor a unit tells that the kubelet reads it."""
    (node.root / ELSEWHERE).parent.mkdir(parents=True)
    (node.root / ELSEWHERE).write_text(json.dumps({"containerRuntimeEndpoint": f"unix://{RUNTIME}"}))
    (node.root / INSTANCE).unlink()
    (node.root / FLAGS).write_text(f'KUBELET_KUBEADM_ARGS="--config=/{ELSEWHERE}"\n')
    node.systemd.start_kubelet()
    node.go()
    shutil.rmtree(node.root / "proc/42")
    (node.root / FLAGS).write_text("")
    node.go(proxied=False)
    assert PROXY in node.text(ELSEWHERE)
    assert any((node.root / "var/lib/colocation").iterdir())


def test_removal_is_the_reverse_and_leaves_no_record(node: Node) -> None:
    before = {path: node.text(path) for path in (CONFIG, INSTANCE, FLAGS)}
    node.go()
    done = node.go(proxied=False)
    assert done.changed and node.systemd.starts == 2
    assert {path: node.text(path) for path in before} == before
    assert not (node.root / "var/lib/colocation").exists()
    assert not node.go(proxied=False).changed


def test_check_mode_tells_and_changes_nothing(node: Node) -> None:
    before = {path: node.text(path) for path in (CONFIG, INSTANCE)}
    node.served.clear()  # the proxy need not be there yet
    told = node.go(check=True)
    assert told.changed and {line["after_header"] for line in told.diff} == {f"/{CONFIG}", f"/{INSTANCE}"}
    assert {path: node.text(path) for path in before} == before and node.systemd.starts == 0
    assert not (node.root / "var/lib/colocation").exists()


@pytest.mark.parametrize(
    ("proxied", "path", "text", "words"),
    [
        (True, CONFIG, "{", "it is no JSON"),
        (False, CONFIG, "{", "it is no JSON"),
        (True, CONFIG, "kind: a\n---\nkind: b\n---\n", "it holds several documents"),
        (True, INSTANCE, "x:\n  containerRuntimeEndpoint: /run/c\n", "containerRuntimeEndpoint is indented"),
    ],
)
def test_a_file_that_can_not_be_changed_is_named(node: Node, proxied: bool, path: str, text: str, words: str) -> None:
    (node.root / path).write_text(text)
    with pytest.raises(SwitchError, match=rf"/{path}: {words}.*\. Nothing was changed"):
        node.go(proxied)
    assert (node.text(path), node.systemd.starts) == (text, 0)


def test_nothing_is_touched_where_nobody_answers_at_the_socket(node: Node) -> None:
    del node.served[PROXY.replace("/var/run", "/run")]
    with pytest.raises(SwitchError, match="no runtime answers there.*Nothing was changed"):
        node.go()
    assert PROXY not in node.text(CONFIG) and node.systemd.starts == 0


def test_a_node_that_does_not_get_ready_is_sent_back(node: Node) -> None:
    before = {path: node.text(path) for path in (CONFIG, INSTANCE)}
    node.not_ready = "container runtime is down"
    with pytest.raises(SwitchError, match="container runtime is down\\nIt was sent back to .* and its node is Ready"):
        node.go()
    assert {path: node.text(path) for path in before} == before and node.systemd.starts == 2
    assert not (node.root / "var/lib/colocation").exists()


def test_a_kubelet_that_does_not_come_up_is_sent_back(node: Node) -> None:
    unit = node.systemd.units["kubelet.service"]
    unit.comes_up = False
    with pytest.raises(SwitchError, match=r"(?s)Going back to .* failed too.*The next run tries all again"):
        node.go()
    assert PROXY not in node.text(CONFIG)
    unit.comes_up = True
    assert node.go().changed and PROXY in node.text(CONFIG)


def test_a_flag_beats_the_file_so_it_is_changed_too(node: Node) -> None:
    (node.root / FLAGS).write_text(f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix://{RUNTIME} --v=2"\n')
    node.systemd.start_kubelet()
    node.go()
    assert node.text(FLAGS) == f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix://{PROXY} --v=2"\n'
    assert PROXY in (node.root / "proc/42/cmdline").read_text()


def test_a_flag_that_comes_from_elsewhere_is_found_out(node: Node) -> None:
    original = node.systemd.start_kubelet

    def start() -> None:
        original()
        with (node.root / "proc/42/cmdline").open("a") as file:
            file.write(f"--container-runtime-endpoint=unix://{RUNTIME}\0")

    node.systemd.start_kubelet = start  # type: ignore[method-assign]
    with pytest.raises(SwitchError, match="something else sets --container-runtime-endpoint"):
        node.go()
    assert PROXY not in node.text(CONFIG)


def test_what_the_kubelet_says_of_itself_counts(node: Node) -> None:
    node.configz = f"unix://{RUNTIME}"
    with pytest.raises(SwitchError, match="/configz says"):
        node.go()
    assert PROXY not in node.text(CONFIG)
    node.configz = f"unix://{PROXY}"
    assert node.go().asked


def test_a_third_runtime_is_left_alone(node: Node) -> None:
    (node.root / CONFIG).write_text("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n")
    with pytest.raises(SwitchError, match="sends the kubelet to unix:///run/crio/crio.sock"):
        node.go()
    assert node.systemd.starts == 0


def test_kubeadm_that_wrote_the_file_anew_does_not_keep_the_proxy_in_it(node: Node) -> None:
    node.go()
    (node.root / CONFIG).write_text(
        f"kind: KubeletConfiguration\nmaxPods: 99\ncontainerRuntimeEndpoint: unix://{PROXY}\n"
    )
    node.go(proxied=False)
    assert node.text(CONFIG) == f"kind: KubeletConfiguration\nmaxPods: 99\ncontainerRuntimeEndpoint: unix://{RUNTIME}\n"


def test_kubeadm_that_took_the_proxy_out_has_it_put_back(node: Node) -> None:
    node.go()
    (node.root / CONFIG).write_text("kind: KubeletConfiguration\n")
    assert node.go().restarted and PROXY in node.text(CONFIG)


def test_the_annotation_is_set_where_there_is_one(node: Node) -> None:
    node.annotation = f"unix://{RUNTIME}"
    node.go()
    assert node.annotation == f"unix://{PROXY}"
    node.go(proxied=False)
    assert node.annotation == f"unix://{RUNTIME}"


def test_a_node_that_is_sent_back_has_its_annotation_again(node: Node) -> None:
    node.annotation = f"unix://{PROXY}"
    node.not_ready = "container runtime is down"
    with pytest.raises(SwitchError, match="It was sent back"):
        node.go()
    assert node.annotation == f"unix://{RUNTIME}"


def test_a_removal_is_done_once_also_where_the_node_is_ill_for_another_reason(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.go()
    monkeypatch.setattr(node, "_ready", lambda _since: Readiness(False, "cni plugin not initialized"))
    with pytest.raises(SwitchError, match="cni plugin not initialized"):
        node.go(proxied=False)
    assert node.systemd.starts == 2 and PROXY not in node.systemd.read_config
    node.go(proxied=False)
    assert node.systemd.starts == 2
    assert not (node.root / "var/lib/colocation").exists()


def test_containers_that_did_not_survive_are_told(node: Node) -> None:
    node.served[RUNTIME] = {"a"}
    assert node.go().lost == ["b"]


def test_a_run_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed at some of its calls, the last ones among them, which the restart is between; with COLOCATION_EXAMPLES at
    each."""
    with killed_at(0) as calls:
        Node(tmp_path / "whole").go()
    step = 1 if "COLOCATION_EXAMPLES" in os.environ else 9
    for number in sorted({*range(1, len(calls) + 1, step), *range(len(calls) - 2, len(calls) + 1)}):
        node = Node(tmp_path / str(number))
        before = {path: node.text(path) for path in (CONFIG, INSTANCE)}
        with killed_at(number):
            node.go()
        node.go()
        assert PROXY in node.systemd.read_config and PROXY in node.text(INSTANCE)
        node.go(proxied=False)
        assert {path: node.text(path) for path in before} == before


class Killed(BaseException):
    """What a run does not live to handle."""


def killed(*_whatever: object) -> None:
    raise Killed


def test_what_a_killed_run_wrote_is_put_back_too_where_the_node_does_not_get_ready(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: node.text(path) for path in (CONFIG, INSTANCE)}
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(node.systemd, "start_kubelet", killed)
        node.go()
    assert PROXY in node.text(CONFIG) and PROXY in node.text(INSTANCE)
    node.not_ready = "container runtime is down"
    with pytest.raises(SwitchError, match="It was sent back to .* and its node is Ready"):
        node.go()
    assert {path: node.text(path) for path in before} == before and PROXY not in node.systemd.read_config
    assert not (node.root / "var/lib/colocation").exists()


def test_a_run_killed_before_the_node_is_ready_leaves_it_to_the_next_to_judge(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(node, "_ready", killed)
        node.go()
    assert PROXY in node.systemd.read_config
    node.not_ready = "container runtime is down"
    assert node.go(check=True).restarted
    with pytest.raises(SwitchError, match="It was sent back"):
        node.go()
    assert PROXY not in node.systemd.read_config


def test_removal_leaves_a_node_alone_that_never_had_the_proxy(node: Node) -> None:
    (node.root / CONFIG).write_text("containerRuntimeEndpoint: unix:///run/crio/crio.sock\n")
    done = node.go(proxied=False)
    assert (done.changed, done.places, node.systemd.starts) == (False, [], 0)
    (node.root / "usr/bin/kubelet").unlink()
    (node.root / "proc/42/comm").write_text("gone\n")
    assert not node.go(proxied=False).changed
