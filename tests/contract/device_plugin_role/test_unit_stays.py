# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node whose configuration has one unit and is to get another, by ansible-playbook on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.role_play import RolePlay

ENTRIES = {"memory": "preflight_memory", "gpu": "gpu_unit"}
RESOURCE = "test.com/some"


class Node:
    def __init__(self, place: Path) -> None:
        self.config = place / "device-plugin.yaml"
        said = {
            "__device_plugin_config": str(self.config),
            "device_plugin_namespace": "",
            "preflight_gpu_mib": [16384],
        }
        self._play = RolePlay(place, "device_plugin", said)

    def run(self, source: str, unit: int, **said: Any) -> tuple[int, str]:
        resources = {source: {RESOURCE: {"unit_mib": unit}}}
        status, _changed, output = self._play(entry=ENTRIES[source], device_plugin_resources=resources, **said)
        return status, " ".join(output.split())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("source", "before", "what"),
    [("memory", {}, "memory in blocks of 512 MiB"), ("gpu", {"unit_mib": 32}, "GPU memory in units of 32 MiB")],
)
def test_another_unit_is_refused_unless_it_is_meant(node: Node, source: str, before: dict[str, int], what: str) -> None:
    node.config.write_text(json.dumps({source: {RESOURCE: before}}))
    status, said = node.run(source, 1024)
    assert status != 0
    assert f"This node offers {what}, and now it would be 1024" in said
    assert f"-e device_plugin_{source}_new_unit=true" in said
    assert node.run(source, 1024, **{f"device_plugin_{source}_new_unit": True})[0] == 0
    assert node.run(source, before.get("unit_mib", 512))[0] == 0


@pytest.mark.parametrize("config", [None, "", "mock: {mock.com/gpu: 1}"])
def test_a_node_that_had_no_unit_may_have_any(node: Node, config: str | None) -> None:
    if config is not None:
        node.config.write_text(config)
    status, said = node.run("memory", 1024)
    assert status == 0, said
