# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""fallback.cfg: what users of cri-resource-manager have, and ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import Made, machine
from colocation.common.config import ConfigError, load
from colocation.cri_proxy.config import PIPE, Config, reserved_cpus, salvaged, system_cpus
from colocation.cri_proxy.cpus import show

OLD = """
policy:
  Active: topology-aware
  ReservedResources:
    CPU: 750m
  topology-aware:
    PinMemory: true
    ColocatePods: false
logger:
  Debug: resource-manager,cache,policy
dump:
  Config: off:.*,full:((Create)|(Remove)).*
"""


def test_a_file_of_the_old_manager_is_read() -> None:
    found = load(Config, OLD, "fallback.cfg")
    assert found.places and found.level == "debug" and found.policy.topology_aware.PinMemory
    assert found.ignored == ("policy.topology-aware.ColocatePods", "dump")


def test_an_empty_file_places_with_the_defaults() -> None:
    found = load(Config, "", "fallback.cfg")
    assert found.places and found.level == "info" and found.ignored == ()
    assert not load(Config, "policy: {Active: none}", "fallback.cfg").places


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("policy: {Active: balloons}", 'policy.Active: "balloons" does not exist here'),
        ("policy: {Active: topology}", 'policy.Active: "topology" is no policy'),
        ("policy: {active: none}", 'policy.active: unknown key; did you mean "Active"?'),
        ("policy: {topologyaware: {}}", 'did you mean "topology-aware"?'),
        ("policy: {ReservedResources: {CPU: lots}}", "is no count such as 2"),
        ("policy: {ReservedResources: {CPU: -1}}", "must be between 0"),
        ("policy: {ReservedResources: {CPU: true}}", "must be a count"),
        ("policy: {ReservedResources: {CPU: .nan}}", "must be between 0"),
        ('policy: {ReservedResources: {CPU: "cpuset:3-1"}}', "ends before it begins"),
        ("policy: {AvailableResources: {CPU: 4}}", "must be CPUs such as"),
        ("placement: {ccx: l4}", 'did you mean "l3"?'),
        ("placement: {check_seconds: 0}", "must be between 1 and 3600"),
        ("listen: cri.sock", "does not begin with /"),
        (f"listen: /{'x' * 107}", "is longer than 107 bytes"),
        ("runtime: unix:///var/run/cri-resmgr/cri-resmgr.sock", "the proxy would call itself"),
        ("listen: /var/run/containerd/containerd.sock", "the proxy would call itself"),
        ("listen: unix:///run//containerd/./containerd.sock", "the proxy would call itself"),
        ("blocks: {mib: 0}", "must be between 1"),
    ],
)
def test_what_is_wrong_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, text, "fallback.cfg")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("0", ""),
        ("750m", "0"),
        ("1", "0"),
        ("1001m", "0,8"),
        ("1.5", "0,8"),
        ("3", "0-1,8"),
        ('"cpuset:2-3"', "2-3"),
        ('"cpuset:2,99"', "2"),
        ("1000", "0-15"),
    ],
)
def test_reserved_cpus_are_whole_cores_from_the_first(wanted: str, expected: str) -> None:
    config = load(Config, f"policy: {{ReservedResources: {{CPU: {wanted}}}}}", "f")
    assert show(system_cpus(config, machine(Made(sockets=2, cores=4, threads=2)))) == expected


def test_isolated_cpus_are_not_the_systems() -> None:
    config = load(Config, "policy: {ReservedResources: {CPU: 2}}", "f")
    assert show(system_cpus(config, machine(Made(cores=4, isolated="0-1")))) == "2-3"


def test_cpus_that_are_not_available_are_reserved_too() -> None:
    config = load(Config, 'policy: {ReservedResources: {CPU: 1}, AvailableResources: {CPU: "cpuset:0-5"}}', "f")
    assert show(reserved_cpus(config, machine(Made(cores=8)))) == "0,6-7"


def test_a_broken_file_still_says_where_the_sockets_are(tmp_path: Path) -> None:
    file = tmp_path / "fallback.cfg"
    file.write_bytes(b'listen: "/run/own.sock"\nruntime: unix:///run/crio/crio.sock\npolicy: [\xff\x00\n listen: /no\n')
    found = salvaged(str(file))
    assert (found.listen, found.runtime, found.places) == ("/run/own.sock", "unix:///run/crio/crio.sock", False)


def test_what_can_be_read_of_a_broken_file_is_read_as_yaml(tmp_path: Path) -> None:
    file = tmp_path / "fallback.cfg"
    file.write_text(
        "# by hand\nlisten: /run/own.sock   # ours\nruntime: '/run/c#d.sock' # containerd\nplacement: {ccx: l4}\n"
        "status:\n# elsewhere\n  address: 127.0.0.2\n  port: 9999 # free\nstate_dir: /srv/state\n"
    )
    found = salvaged(str(file))
    assert (found.listen, found.runtime, found.state_dir) == ("/run/own.sock", "/run/c#d.sock", "/srv/state")
    assert (found.status.address, found.status.port) == ("127.0.0.2", 9999)
    assert not found.places and not found.is_known


def test_what_is_known_to_be_off_is_not_what_is_not_known() -> None:
    assert load(Config, "policy: {Active: none}", "f").is_known and not PIPE.is_known
    with pytest.raises(ConfigError):
        load(Config, f"policy: {{Active: {PIPE.policy.Active}}}", "f")


@pytest.mark.parametrize("content", [b"", b"listen: relative", b"runtime: " + PIPE.listen.encode(), b"\x00" * 100])
def test_without_anything_useful_the_defaults_pass_calls_on(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "fallback.cfg"
    file.write_bytes(content)
    assert salvaged(str(file)) == PIPE == salvaged(str(tmp_path / "missing"))
