# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The relay between the kubelet's gRPC library and the runtimes', with the API's own Go types on both sides."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.contract.cri_proxy.conftest import EDIT
from ansible_collections.colocation.kubernetes.tests.contract.cri_proxy.cri_parts import RuntimeDouble, program
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import NEWER, PolicyDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.relay_site import Site, until
from colocation.cri_proxy.calls import ContainerCreated, ContainerStopped

CONTAINERS = 15
TOO_LARGE = 1  # of them


def live(path: str) -> list[tuple[Any, Any]]:
    """All kinds of calls, checked by the client; what it sent to create containers, and what the runtime got."""
    done = subprocess.run([program(), "live", path], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    read = NEWER["CreateContainerRequest"].FromString
    return [(read(bytes.fromhex(sent)), read(bytes.fromhex(got))) for sent, got in json.loads(done.stdout)]


def test_everything_passes_and_creations_are_edited(placed: Site, policy: PolicyDouble, runtime: RuntimeDouble) -> None:
    created = live(placed.path)
    assert len(created) == CONTAINERS
    untouched = [sent == got for sent, got in created]
    assert untouched.count(True) == TOO_LARGE
    for (sent, got), same in zip(created, untouched, strict=True):
        if not same:
            resources = sent.config.linux.resources
            resources.cpuset_cpus, resources.cpuset_mems = EDIT.cpuset_cpus, EDIT.cpuset_mems
            resources.memory_limit_in_bytes = EDIT.memory_limit
            assert got == sent
    made = [event for event in policy.events if isinstance(event, ContainerCreated)]
    keys = {asked.key for asked in policy.creations if asked.container != "refused"}
    assert {event.key for event in made} == keys
    assert len(made) == CONTAINERS - TOO_LARGE
    assert ContainerStopped("1") in policy.events
    assert all(line.endswith(" 0") for line in placed.registry.render().splitlines() if "fail_open_total{" in line)
    until("every call has ended", lambda: not placed.relay.load().calls)


def test_with_a_broken_policy_everything_passes(placed: Site, policy: PolicyDouble, runtime: RuntimeDouble) -> None:
    policy.fails = True
    assert all(sent == got for sent, got in live(placed.path))


def test_without_a_policy_everything_passes(plain: Site) -> None:
    double = RuntimeDouble(Path(plain.runtime))
    try:
        assert all(sent == got for sent, got in live(plain.path))
        assert plain.relay.load().plain == plain.relay.load().connections
    finally:
        double.stop()


def test_a_runtime_killed_in_the_middle_is_found_again(placed: Site, policy: PolicyDouble) -> None:
    for _turn in range(2):
        double = RuntimeDouble(Path(placed.runtime))
        assert len(live(placed.path)) == CONTAINERS
        double.stop()
        Path(placed.runtime).unlink()
    assert len({asked.key for asked in policy.creations}) == len(policy.creations)
