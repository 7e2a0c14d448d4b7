# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the role device_plugin writes: systemd judges the unit, the agent the configuration."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.colocation.kubernetes.plugins.filter.gpu_unit import gpu_unit
from ansible_collections.colocation.kubernetes.tests.unit.roles.systemd_judge import complaints, systemd_analyze
from colocation.common.settings import read
from colocation.device_plugin.config import Config
from colocation.device_plugin.gpu_config import GpuMemory
from colocation.device_plugin.memory_config import Memory

ROLE = Path(__file__).parents[3] / "roles" / "device_plugin"
COLLECTION = ROLE.parents[1]
OFFERS = sorted([*COLLECTION.glob("molecule/*/offer.yml"), COLLECTION / "tests/run/story/offer.yml"])
UNIT = "colocation-device-plugin.service"
MOST_EXPOSED = 4.0


def _trusted(value: Any) -> Any:
    """As variables from files of a role are."""
    if isinstance(value, str):
        return trust_as_template(value)
    return {key: _trusted(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def _rendered(template: str, **variables: Any) -> str:
    files = [yaml.safe_load((ROLE / name / "main.yml").read_text()) for name in ("defaults", "vars")]
    known = {
        **_trusted(files[0]),
        **_trusted(files[1]),
        "groups": {"kube_node": ["n1"]},
        "hostvars": {"n1": {}},
        "inventory_hostname": "n1",
        "__device_plugin_identity": {"node": "n1"},
        "agent_runtime_interpreter": "/usr/bin/python3",
        **variables,
    }
    text = trust_as_template((ROLE / "templates" / template).read_text())
    templar = Templar(DataLoader(), known)
    # Its full name is for the loader of collections, which would take over the imports of the whole process.
    templar.environment.filters["colocation.kubernetes.gpu_unit"] = gpu_unit
    rendered: str = templar.template(text)
    return rendered


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    path = tmp_path / UNIT
    path.write_text(_rendered(f"{UNIT}.j2"))
    return path


def test_systemd_reads_the_unit_without_a_word(unit: Path) -> None:
    assert complaints(unit) == []


def test_the_unit_is_hardened(unit: Path) -> None:
    done = systemd_analyze("security", "--offline=true", "--no-pager", str(unit))
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd judges only units that it runs")
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level[1]) < MOST_EXPOSED


def test_the_unit_is_started_again_as_soon_after_the_hundredth_crash_as_after_the_first(unit: Path) -> None:
    """systemd counts restarts for as long as nobody stops the unit, so any delay that grows is for ever."""
    said = re.findall(r"^Restart\w+=.*|^StartLimit\w+=.*", unit.read_text(), re.MULTILINE)
    assert said == ["StartLimitIntervalSec=0", "RestartSec=2s"]


def test_the_agent_sees_a_directory_that_is_wiped_and_made_anew(unit: Path) -> None:
    assert "ReadWritePaths=/var/lib/kubelet\n" in unit.read_text()


MEMORY = "test.com/colocation-memory"


@pytest.mark.parametrize(
    ("nodes", "settings", "unit"),
    [
        ({}, None, 512),
        ({"n1": 500_000, "n2": 60 << 20}, {"watermark": 0.2}, 512),
        ({"n1": 500_000, "n2": 80 << 20}, {"watermark": 0.2}, 1024),
        ({"n1": 500_000, "n2": 80 << 20}, {"unit_mib": 2048}, 2048),
    ],
)
def test_a_block_is_chosen_from_the_largest_node(
    nodes: dict[str, int], settings: dict[str, Any] | None, unit: int, tmp_path: Path
) -> None:
    file = tmp_path / "device-plugin.yaml"
    text = _rendered(
        "device-plugin.yaml.j2",
        device_plugin_resources={"memory": {MEMORY: settings}},
        groups={"kube_node": ["n1", "n2", "n3"]},
        hostvars={"n1": {}, "n2": {}, "n3": {}} | {n: {"preflight_memory_mib": mib} for n, mib in nodes.items()},
    )
    file.write_text(text)
    (memory,) = read(Config, str(file)).memory.values()
    assert memory == Memory(**{"unit_mib": unit, **(settings or {})})


def test_what_else_a_user_may_say(tmp_path: Path) -> None:
    def told(**variables: Any) -> Config:
        file = tmp_path / "device-plugin.yaml"
        file.write_text(_rendered("device-plugin.yaml.j2", **variables))
        return read(Config, str(file))

    assert told() == Config()
    there = told(device_plugin_kubelet_dir="/data/kubelet/device-plugins", device_plugin_refresh_seconds="2.5")
    assert there.pod_resources_socket == "/data/kubelet/pod-resources/kubelet.sock"
    assert there.refresh_seconds == 2.5
    slow = told(device_plugin_retry_seconds=30, device_plugin_stream_grace_seconds=60)
    assert (slow.retry_seconds, slow.stream_grace_seconds) == (30.0, 60.0)


def test_with_memory_the_unit_may_write_to_control_groups_and_is_still_hardened(tmp_path: Path) -> None:
    text = _rendered(f"{UNIT}.j2", device_plugin_resources={"memory": {MEMORY: None}})
    assert "ProtectControlGroups=no\n" in text
    assert "ProtectControlGroups=yes\n" in _rendered(f"{UNIT}.j2")
    path = tmp_path / UNIT
    path.write_text(text)
    test_the_unit_is_hardened(path)
    test_systemd_reads_the_unit_without_a_word(path)


GPUS = "doslab.io/gpu-memory"


def _gpu_node(mib: list[int], settings: dict[str, Any] | None, others: dict[str, list[int]]) -> dict[str, Any]:
    """Variables of a node that wants to offer GPUs, in a cluster with others."""
    resources = {"gpu": {GPUS: settings}}
    known = {"n1": mib, **others}
    return {
        "device_plugin_resources": resources,
        "preflight_gpu_mib": mib,
        "groups": {"kube_node": [*known, "n9"]},
        "hostvars": {"n9": {"inventory_hostname": "n9"}}
        | {
            name: {"inventory_hostname": name, "device_plugin_resources": resources, "preflight_gpu_mib": memories}
            for name, memories in known.items()
        },
    }


@pytest.mark.parametrize(
    ("mib", "others", "settings", "unit"),
    [
        ([16384], {}, None, 4),
        ([16384], {"n2": [81920] * 8}, None, 32),
        ([16384], {"n2": [81920] * 8}, {"allow_multi_gpu": True}, 256),
        ([81920], {"n2": []}, {"unit_mib": 64, "mig": "list"}, 64),
    ],
)
def test_the_unit_of_gpus_is_chosen_from_the_largest_node(
    mib: list[int], others: dict[str, list[int]], settings: dict[str, Any] | None, unit: int, tmp_path: Path
) -> None:
    file = tmp_path / "device-plugin.yaml"
    file.write_text(_rendered("device-plugin.yaml.j2", **_gpu_node(mib, settings, others)))
    config = read(Config, str(file))
    assert config.gpu == {GPUS: GpuMemory(**{"unit_mib": unit, **(settings or {})})}
    assert (config.kubernetes.kubeconfig, config.kubernetes.node) == (
        "/var/lib/colocation/credentials/kubeconfig",
        "n1",
    )


def test_a_node_without_gpus_offers_none(tmp_path: Path) -> None:
    file = tmp_path / "device-plugin.yaml"
    variables = _gpu_node([], None, {"n2": [81920]})
    file.write_text(_rendered("device-plugin.yaml.j2", **variables))
    assert not read(Config, str(file)).gpu
    assert "nvidia" not in _rendered(f"{UNIT}.j2", **variables)


@pytest.mark.parametrize(("double", "asks"), [("", True), ("/etc/colocation/gpus.yaml", False)])
def test_only_who_asks_the_driver_may_use_its_devices(double: str, asks: bool, tmp_path: Path) -> None:
    text = _rendered(f"{UNIT}.j2", **_gpu_node([81920], {"double_file": double}, {}))
    for line in ("DeviceAllow=char-nvidia* rw", "Wants=modprobe@nvidia.service", "After=modprobe@nvidia.service"):
        assert (f"{line}\n" in text) == asks
    path = tmp_path / UNIT
    path.write_text(text)
    test_the_unit_is_hardened(path)
    test_systemd_reads_the_unit_without_a_word(path)


@pytest.mark.parametrize("resources", [{}, {"mock": {"mock.com/gpu": 10, "a.com/b": 0}}])
def test_the_agent_takes_the_configuration(resources: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "device-plugin.yaml"
    file.write_text(_rendered("device-plugin.yaml.j2", device_plugin_resources=resources, device_plugin_port=9999))
    config = read(Config, str(file))
    assert (dict(config.mock), config.status.port) == (resources.get("mock", {}), 9999)
    assert (config.kubelet_dir, config.log_level) == ("/var/lib/kubelet/device-plugins", "info")


def test_the_command_is_the_agent_of_the_release_in_force(tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(COLLECTION / "files/agents")
    command = tmp_path / "colocation-device-plugin"
    said = {"device_plugin_home": str(tmp_path), "agent_runtime_interpreter": sys.executable}
    command.write_text(_rendered("colocation-device-plugin.j2", **said))
    command.chmod(0o755)
    config = tmp_path / "a file.yaml"
    config.write_text("mock: {mock.com/gpu: many}\n")
    done = subprocess.run([command, "--config", config, "status"], capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert 'must be a whole number, not "many"' in done.stderr
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: colocation-device-plugin [-h]")


@pytest.mark.parametrize("offer", OFFERS, ids=lambda file: file.parent.name)
def test_the_agent_takes_what_scenarios_offer(offer: Path, tmp_path: Path) -> None:
    said = yaml.safe_load(offer.read_text())
    wanted = {name: said[name] for name in ("device_plugin_resources", "device_plugin_reclaim") if name in said}
    file = tmp_path / "device-plugin.yaml"
    file.write_text(_rendered("device-plugin.yaml.j2", **wanted, preflight_gpu_mib=[81920] * 4))
    read(Config, str(file))


def test_defaults_are_the_agents_own() -> None:
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    own = Config()
    assert defaults["device_plugin_kubelet_dir"] == own.kubelet_dir
    assert defaults["device_plugin_port"] == own.status.port
    assert defaults["device_plugin_log_level"] == own.log_level
