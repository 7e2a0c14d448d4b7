# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The examples in the modules' documentation, run by a real Ansible as a reader would run them."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.modules import (
    kubelet_devices_info,
    node_capacity,
    node_capacity_info,
)
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible
from ansible_collections.colocation.kubernetes.tests.contract.kubelet_devices.kubelet_parts import (
    PodResourcesDouble,
    write_checkpoints,
)
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes

GPU = "mock.com/gpu"
Ansible = Callable[..., str]


@pytest.fixture
def ansible(nodes: Nodes, tmp_path: Path) -> Ansible:
    """Runs a command of Ansible's in a home whose kubeconfig leads to the test's API server."""
    config = json.loads(json.dumps(nodes.kubeconfig))
    config["contexts"][0]["name"] = config["current-context"] = "kubernetes-admin@kubernetes"
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(yaml.safe_dump(config))

    def run(*words: str) -> str:
        status, output = run_ansible(tmp_path, *words, HOME=str(tmp_path))
        assert status == 0, output
        return output

    return run


@pytest.fixture
def workers(nodes: Nodes) -> Iterator[list[str]]:
    """Nodes with the names that the examples use, and kubelets."""
    names = ["worker1", "worker2"]
    for name in names:
        nodes.make_named(name, gpu="mock")
        nodes.kubelet(name)
    yield names


def play(tmp_path: Path, module: ModuleType, **defaults: Any) -> str:
    """A playbook of a module's examples."""
    tasks = yaml.safe_load(module.EXAMPLES)
    name = f"colocation.kubernetes.{module.__name__.rpartition('.')[2]}"
    content = [{"hosts": "localhost", "gather_facts": False, "module_defaults": {name: defaults}, "tasks": tasks}]
    path = tmp_path / "examples.yml"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_node_capacity(nodes: Nodes, workers: list[str], ansible: Ansible, tmp_path: Path) -> None:
    output = ansible("ansible-playbook", play(tmp_path, node_capacity))
    assert re.search(r"ok=4 +changed=4 ", output), output
    assert [nodes.status(name) for name in workers] == [{GPU: "2"}, {"mock.com/gpu-memory": "4k"}]


def test_the_ad_hoc_line_and_the_issues(nodes: Nodes, workers: list[str], ansible: Ansible) -> None:
    found = re.search(r"^# Ad hoc: (.+)$", node_capacity.EXAMPLES, re.M)
    assert found
    assert '"changed": true' in ansible(*shlex.split(found[1]))
    assert nodes.status("worker1") == {GPU: "10"}
    as_json = json.dumps({"node": "worker1", "resources": {GPU: 10}})
    assert '"changed": false' in ansible(
        "ansible", "localhost", "-m", "colocation.kubernetes.node_capacity", "-a", as_json
    )
    shown = ansible(
        *shlex.split("ansible localhost --check --diff -m colocation.kubernetes.node_capacity"),
        "-a",
        f"node=worker1,worker2 resource={GPU} value=11",
    )
    assert f'-    "{GPU}": "10"' in shown and f'+    "{GPU}": "11"' in shown and '"cpu"' not in shown.partition("|")[0]
    assert nodes.status("worker1") == {GPU: "10"}


def test_secrets_stay_out_of_the_most_talkative_output(
    nodes: Nodes, workers: list[str], ansible: Ansible, tmp_path: Path
) -> None:
    arguments = json.dumps({"node": workers, "resources": {GPU: 1}, "kubeconfig": nodes.kubeconfig})
    (tmp_path / "arguments.json").write_text(arguments)
    shown = ansible(*shlex.split("ansible localhost -vvv -m colocation.kubernetes.node_capacity -a"), arguments)
    secret = nodes.kubeconfig["users"][0]["user"]["client-key-data"]
    assert secret not in shown and nodes.server.server in shown


def test_group_defaults_reach_the_api_modules(
    nodes: Nodes, workers: list[str], ansible: Ansible, tmp_path: Path
) -> None:
    tasks = [{"colocation.kubernetes.node_capacity": {"node": "worker2", "resource": GPU, "value": 5}}]
    defaults = {
        "group/colocation.kubernetes.api": {"context": "kubernetes-admin@kubernetes", "impersonate_user": "jane"}
    }
    tasks[0]["ignore_errors"] = True  # type: ignore[assignment]
    path = tmp_path / "play.yml"
    content = {"hosts": "localhost", "gather_facts": False, "module_defaults": defaults, "tasks": tasks}
    path.write_text(yaml.safe_dump([content]))
    output = ansible("ansible-playbook", str(path))
    assert 'User \\"jane\\" cannot get resource' in output, output


def test_node_capacity_info(nodes: Nodes, workers: list[str], ansible: Ansible, tmp_path: Path) -> None:
    nodes.write("worker2", "plugin.com/gone", "0", manager="kubelet")
    path = play(tmp_path, node_capacity_info)
    output = ansible("ansible-playbook", path)
    assert '"msg": "worker2: plugin.com/gone"' in output, output


def test_kubelet_devices_info(ansible: Ansible, tmp_path: Path) -> None:
    entry = {"PodUID": "u", "ContainerName": "main", "ResourceName": GPU, "DeviceIDs": {"0": ["gpu-0"]}}
    (tmp_path / "checkpoint").write_bytes(write_checkpoints([{"Entries": [entry], "Registered": {GPU: ["gpu-0"]}}])[0])
    containers = [{"name": "main", "devices": [{"resource_name": GPU, "device_ids": ["gpu-0"]}]}]
    with tempfile.TemporaryDirectory(prefix="kd-", dir="/tmp") as short:
        socket = Path(short) / "s"
        answer = {"pod_resources": [{"name": "trainer", "namespace": "batch", "containers": containers}]}
        double = PodResourcesDouble(socket, answer)
        try:
            path = play(tmp_path, kubelet_devices_info, socket=str(socket), checkpoint=str(tmp_path / "checkpoint"))
            output = ansible("ansible-playbook", path)
        finally:
            double.stop()
    assert '"msg": "batch/trainer: gpu-0"' in output, output
