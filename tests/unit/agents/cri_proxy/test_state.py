# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The state file: read back, or of no use; and the cgroups in which the truth is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.containers import pod, resources, said
from colocation.cri_proxy import kubelet, state
from colocation.cri_proxy.bookkeeping import Freed
from colocation.cri_proxy.cgroups import Cgroups
from colocation.cri_proxy.cpus import show
from colocation.cri_proxy.ledger import Entry, Who
from colocation.cri_proxy.placement import Choice, Shape
from colocation.cri_proxy.state import State, decode, encode, load, save

WHO = Who("s", "u", "default", "web", "main")
ENTRY = Entry(WHO, 1500, Shape.NUMA, (2, 3), batch=True)
SAID = said(resources(1.5, 3, 1 << 30), pod(), environment={"BLOCKS": "CM-0-1", "SECRET": "x"})
FREED = {"c2": Freed("default/old/main", mems=True), "c3": Freed("default/older/main", mems=False)}
CONTENT = encode([("c1", ENTRY, SAID), ("c4", replace(ENTRY, mems=3), SAID)], FREED, ["BLOCKS"])
ID = "a1" * 32


def test_what_is_saved_is_read_back_and_holds_no_more_than_it_must(tmp_path: Path) -> None:
    save(str(tmp_path / "new"), CONTENT)
    found, problem = load(str(tmp_path / "new"))
    record = found.records["c1"]
    assert problem == "" and found.freed == FREED
    assert (record.name, record.choice) == ("default/web/main", Choice(Shape.NUMA, (2, 3), 0))
    assert (record.resources, record.environment) == (SAID.resources, {"BLOCKS": "CM-0-1"})
    assert [found.records[key].mems for key in ("c1", "c4")] == [False, True]
    assert set(found.all_freed()) == {"c1", "c2", "c3", "c4"}
    assert "SECRET" not in CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == [state.NAME]


def test_of_a_file_that_does_not_tell_memory_nodes_are_taken_for_ours() -> None:
    document = json.loads(CONTENT)
    del document["mems"]
    assert all(one.mems for one in decode(json.dumps(document)).all_freed().values())


def test_no_file_is_no_state_and_no_problem(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == (State(), "")
    assert not state.remove(str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        "",
        CONTENT[:40],
        "[]",
        "null",
        "{}",
        '{"version": 2, "containers": {}, "freed": {}}',
        '{"version": 1, "containers": [], "freed": {}}',
        '{"version": 1, "containers": {"c": {}}, "freed": {}}',
        CONTENT.replace('"NUMA"', '"MOON"'),
        CONTENT.replace("[2, 3]", '["2"]'),
        CONTENT.replace("[2, 3]", "[-1]"),
        CONTENT.replace('"cpu_shares": 1536', '"cpu_shares": "many"'),
        CONTENT.replace('"cpu_shares": 1536', '"cpu_shares": 1e999'),
        "[" * 100_000,
    ],
)
def test_a_file_that_is_not_ours_is_told_and_not_used(tmp_path: Path, content: str) -> None:
    (tmp_path / state.NAME).write_text(content)
    found, problem = load(str(tmp_path))
    assert found == State() and "is of no use" in problem


@given(st.integers(0, len(CONTENT) - 2), st.binary(max_size=3))
def test_any_damage_is_survived(at: int, damage: bytes) -> None:
    content = (CONTENT.encode()[:at] + damage + CONTENT.encode()[at + 1 :]).decode(errors="replace")
    try:
        decode(content)
    except ValueError:
        pass


TREE = json.loads(CONTENT)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([1e999, -1e999, 1e999 * 0, 1 << 70, -(1 << 70)]),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values of a document, inner ones too."""
    yield path
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield from leaves(tree[key], (*path, key))


@given(st.sampled_from([path for path in leaves(TREE) if path]), VALUES)
def test_any_value_in_any_place_is_taken_or_refused(path: tuple[Any, ...], value: object) -> None:
    document = json.loads(CONTENT)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    try:
        found = decode(json.dumps(document))
    except ValueError:
        return
    for record in found.records.values():
        assert all(-(1 << 63) <= amount < 1 << 63 for amount in asdict(record.resources).values() if amount != "")


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: Path) -> None:
    save(str(tmp_path), CONTENT)
    (tmp_path / ".state.json.new").mkdir()  # nothing can be written there
    with pytest.raises(OSError):
        save(str(tmp_path), "{}")
    assert load(str(tmp_path))[0].records


@pytest.mark.parametrize(
    "place",
    [
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice/cri-containerd-{ID}.scope",
        f"kubepods.slice/kubepods-podx.slice/crio-{ID}.scope",
        f"kubepods/besteffort/podx/{ID}",
        f"kubelet/kubepods/burstable/podx/{ID}",
        f"cpuset/kubepods/podx/{ID}",
    ],
)
def test_containers_are_found_by_their_id_under_any_driver(tmp_path: Path, place: str) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (tmp_path / "system.slice/containerd.service").mkdir(parents=True)
    cgroups = Cgroups(str(tmp_path))
    assert cgroups.containers() == {ID: str(folder)}
    name = "cpuset.effective_cpus" if place.startswith("cpuset/") else "cpuset.cpus.effective"
    (folder / name).write_text("0-3\n")
    assert show(cgroups.effective(str(folder)) or 0) == "0-3"


def test_a_cgroup_without_a_cpuset_has_its_parents(tmp_path: Path) -> None:
    folder = tmp_path / "kubepods/podx" / ID
    folder.mkdir(parents=True)
    cgroups = Cgroups(str(tmp_path))
    assert cgroups.effective(str(folder)) is None
    (tmp_path / "cpuset.cpus.effective").write_text("0-7\n")
    assert show(cgroups.effective(str(folder)) or 0) == "0-7"
    (tmp_path / "kubepods/cpuset.cpus.effective").write_text("\n")  # empty says nothing
    assert show(cgroups.effective(str(folder)) or 0) == "0-7"
    assert cgroups.effective(str(folder / "gone")) is None


def test_memory_nodes_in_force_are_read_in_the_same_way(tmp_path: Path) -> None:
    folder = tmp_path / "kubepods/podx" / ID
    folder.mkdir(parents=True)
    cgroups = Cgroups(str(tmp_path))
    assert cgroups.memory_nodes(str(folder)) is None
    (tmp_path / "kubepods/cpuset.mems.effective").write_text("0-1\n")
    assert cgroups.memory_nodes(str(folder)) == 0b11
    (folder / "cpuset.effective_mems").write_text("1\n")
    assert cgroups.memory_nodes(str(folder)) == 0b10


def test_no_cgroups_are_no_containers(tmp_path: Path) -> None:
    assert Cgroups(str(tmp_path / "missing")).containers() == {}


@pytest.mark.parametrize(
    ("content", "static"),
    [
        (json.dumps({"policyName": "static", "defaultCpuSet": "0-3"}), True),
        (json.dumps({"policyName": "none"}), False),
        ("[]", False),
        ("{", False),
        ("", False),
    ],
)
def test_the_kubelets_own_record_tells_whether_it_pins(tmp_path: Path, content: str, static: bool) -> None:
    (tmp_path / "cpu_manager_state").write_text(content)
    assert kubelet.cpu_manager_is_static(str(tmp_path)) is static
    assert not kubelet.cpu_manager_is_static(str(tmp_path / "missing"))
