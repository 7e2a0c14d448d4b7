# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pods held to their blocks: which limit, on which cgroup, written how."""

from __future__ import annotations

import errno
import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.metrics import Registry
from colocation.device_plugin.limits import Limit, holds, is_pod, limits
from colocation.device_plugin.limits_keeper import RETRY_SECONDS, TOLD, Keeper, container_limits
from colocation.device_plugin.reclaim_view import Holding, PodHolding

UID = "0f31a2b4-1111-4222-8333-44445555aaaa"
ROOT = "/sys/fs/cgroup"
SYSTEMD = f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice"
BLOCK = 512 << 20


@pytest.mark.parametrize(
    ("path", "pod"),
    [
        (f"{ROOT}/kubepods.slice/kubepods-besteffort.slice/{SYSTEMD}", True),
        (f"{ROOT}/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice", True),
        (f"{ROOT}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-{SYSTEMD}", True),
        (f"{ROOT}/kubepods.slice/kubepods-pod{'ab' * 16}.slice", True),  # a static pod: its UID is a hash
        (f"{ROOT}/kubepods/besteffort/pod{UID}", True),
        (f"{ROOT}/kubepods/pod{UID}", True),
        (f"{ROOT}/kubepods.slice", False),
        (f"{ROOT}/kubepods.slice/kubepods-besteffort.slice", False),
        (f"{ROOT}/kubepods.slice/kubepods-besteffort.slice/{SYSTEMD}/cri-containerd-aa.scope", False),
        (f"{ROOT}/kubepods/besteffort", False),
        (f"{ROOT}/kubepods", False),
        (f"{ROOT}/system.slice/pod{UID}", False),
        (f"{ROOT}/system.slice", False),
        (ROOT, False),
        (f"kubepods/pod{UID}", False),
        ("", False),
    ],
)
def test_only_a_pods_own_cgroup_is_a_pods(path: str, pod: bool) -> None:
    assert is_pod(path) is pod


@given(st.text(alphabet="kubepodsltrfice.-/_09af", max_size=60))
def test_no_other_path_is_taken_for_a_pods(text: str) -> None:
    if is_pod(f"{ROOT}/{text}"):
        assert "pod" in os.path.basename(text).replace("kubepods", "")


def holding(uid: str, cgroup: str, *counts: int) -> PodHolding:
    numbers = iter(range(100))
    parts = (
        Holding(f"c{n}", tuple(f"CM-0-{next(numbers)}" for _block in range(count))) for n, count in enumerate(counts)
    )
    return PodHolding("batch", uid, uid, cgroup, tuple(parts))


def nothing_runs(_cgroup: str) -> list[int]:
    return []


def test_a_pod_may_have_its_blocks_and_what_its_other_containers_may_have() -> None:
    path = f"{ROOT}/kubepods/besteffort/pod{UID}"
    pods = (holding("a", path, 2, 1), holding("b", "", 1), holding("c", f"{ROOT}/kubepods/besteffort", 1))
    assert limits(pods, BLOCK, {"a": 0}, nothing_runs) == (Limit(path, 3 * BLOCK),)
    assert limits(pods, BLOCK, {"a": 100 << 20}, nothing_runs) == (Limit(path, 3 * BLOCK + (100 << 20)),)


@pytest.mark.parametrize(
    ("running", "made", "stays"),
    [
        ([], 3, 3),
        ([2], 5, 5),  # a sidecar
        ([3, 2], 8, 5),  # the CRI proxy limits the one with blocks as well
        ([3], 6, 3),  # either a sidecar or the CRI proxy
        ([3, 3], 9, 6),
    ],
)
def test_a_limit_is_not_too_low_while_the_other_containers_are_not_known(
    running: list[int], made: int, stays: int
) -> None:
    path = f"{ROOT}/kubepods/besteffort/pod{UID}"
    found = limits((holding("a", path, 3),), BLOCK, {}, lambda _cgroup: [count * BLOCK for count in running])
    assert found == (Limit(path, made * BLOCK, stays * BLOCK),)
    assert not holds(found[0], "max\n", 4096)
    assert not holds(found[0], f"{stays * BLOCK - 4096}\n", 4096)
    assert holds(found[0], f"{stays * BLOCK}\n", 4096)
    assert holds(found[0], f"{made * BLOCK}\n", 4096)


def test_the_limits_of_running_containers(tmp_path: Path) -> None:
    for name, text in (
        ("memory.max", "9"),
        ("a/memory.max", "7\n"),
        ("b/memory.max", "max\n"),
        ("c/inner/memory.max", "5"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert container_limits(str(tmp_path)) == (7,)
    assert container_limits(str(tmp_path / "gone")) == ()


def test_blocks_that_an_init_container_left_to_the_next_count_once() -> None:
    parts = (Holding("init", ("CM-0-0", "CM-0-1")), Holding("main", ("CM-0-0",)), Holding("aside", ("CM-0-2",)))
    pod = PodHolding("batch", "job", UID, f"{ROOT}/kubepods/pod{UID}", parts)
    assert limits((pod,), BLOCK, {UID: 0}, nothing_runs) == (Limit(pod.cgroup, 3 * BLOCK),)


@pytest.mark.parametrize(
    ("content", "good"), [("1610612736\n", True), ("1610612735\n", False), ("max\n", False), ("", False)]
)
def test_when_a_limit_is_in_force(content: str, good: bool) -> None:
    assert holds(Limit("/x", 3 * BLOCK), content, 4096) is good
    assert holds(Limit("/x", 3 * BLOCK + 5), content, 4096) is good  # the kernel keeps whole pages


class SystemdDouble:
    """`systemctl set-property` as a script that writes memory.max as systemd would, in directories that are none of
    the kernel's."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log = place / "calls"
        self.ill = place / "ill"
        program = place / "bin" / "systemctl"
        program.parent.mkdir()
        program.write_text(
            f"""#!/bin/sh
echo "$@" >> {self.log}
test -e {self.ill} && {{ echo "Failed to set unit properties: it is ill" >&2; exit 1; }}
echo "${{5#MemoryMax=}}" > {place}/kubepods.slice/"$4"/memory.max
"""
        )
        program.chmod(0o755)
        self.environment = {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def pod(self, name: str = SYSTEMD) -> Path:
        directory = self.place / "kubepods.slice" / name
        directory.mkdir(parents=True)
        (directory / "memory.max").write_text("max\n")
        return directory

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def systemd(tmp_path: Path) -> SystemdDouble:
    return SystemdDouble(tmp_path)


@pytest.fixture
def keeper(systemd: SystemdDouble, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setenv("PATH", systemd.environment["PATH"])
    return Keeper(Registry())


def test_systemd_is_told_once_and_again_when_the_limit_is_lost(systemd: SystemdDouble, keeper: Keeper) -> None:
    pod = systemd.pod()
    wanted = (Limit(str(pod), 3 * BLOCK),)
    keeper.keep(wanted, 0.0)
    keeper.keep(wanted, 1.0)
    assert systemd.calls == [f"set-property --runtime -- {SYSTEMD} MemoryMax={3 * BLOCK}"]
    (pod / "memory.max").write_text("max\n")
    keeper.keep(wanted, 2.0)
    assert len(systemd.calls) == 2
    assert (pod / "memory.max").read_text() == f"{3 * BLOCK}\n"
    assert keeper.problems == ()


def test_without_systemds_driver_the_kernel_is_told(tmp_path: Path) -> None:
    pod = tmp_path / "kubepods" / f"pod{UID}"
    pod.mkdir(parents=True)
    (pod / "memory.max").write_text("max\n")
    registry = Registry()
    Keeper(registry).keep((Limit(str(pod), BLOCK),), 0.0)
    assert (pod / "memory.max").read_text() == str(BLOCK)
    assert "colocation_limited_pods 1\n" in registry.render()
    assert 'colocation_limit_writes_total{result="done"} 1\n' in registry.render()


def test_what_does_not_work_is_a_problem_and_tried_again_later(systemd: SystemdDouble, keeper: Keeper) -> None:
    good, bad = systemd.pod(SYSTEMD.replace("0f", "00")), systemd.pod()
    systemd.ill.touch()
    wanted = (Limit(str(bad), BLOCK),)
    keeper.keep(wanted, 0.0)
    assert keeper.problems == (
        f"{bad} could not be limited to {BLOCK} bytes: Failed to set unit properties: it is ill",
    )
    systemd.ill.unlink()
    keeper.keep((*wanted, Limit(str(good), BLOCK)), RETRY_SECONDS - 1)
    assert len(keeper.problems) == 1, "one pod's trouble is not another's"
    assert (good / "memory.max").read_text() == f"{BLOCK}\n"
    keeper.keep(wanted, RETRY_SECONDS)
    assert keeper.problems == ()


def test_a_pod_that_went_meanwhile_is_no_problem(systemd: SystemdDouble, keeper: Keeper, tmp_path: Path) -> None:
    keeper.keep((Limit(str(tmp_path / "kubepods.slice" / SYSTEMD), BLOCK),), 0.0)
    assert (keeper.problems, systemd.calls) == ((), [])


def test_a_pod_that_goes_while_its_limit_is_read_is_no_problem(
    systemd: SystemdDouble, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = systemd.pod()

    def goes(_limit: Limit) -> bool:
        shutil.rmtree(pod, ignore_errors=True)
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr("colocation.device_plugin.limits_keeper._in_force", goes)
    keeper.keep((Limit(str(pod), BLOCK),), 0.0)
    assert (keeper.problems, systemd.calls) == ((), [])


def test_a_limit_that_does_not_come_into_force_is_a_problem(systemd: SystemdDouble, keeper: Keeper) -> None:
    pod = systemd.pod()
    (systemd.place / "bin" / "systemctl").write_text("#!/bin/sh\n")
    keeper.keep((Limit(str(pod), BLOCK),), 0.0)
    assert "it was written, and another limit is in force" in keeper.problems[0]


def test_a_systemd_that_does_not_answer_is_left_alone(
    systemd: SystemdDouble, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("colocation.device_plugin.limits_keeper.COMMAND_SECONDS", 0.1)
    pod = systemd.pod()
    (systemd.place / "bin" / "systemctl").write_text("#!/bin/sh\nexec sleep 30\n")
    keeper.keep((Limit(str(pod), BLOCK),), 0.0)
    assert "systemctl did not answer within 0.1 s" in keeper.problems[0]


def test_a_round_ends_in_time_and_the_next_goes_on(systemd: SystemdDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that goes on by a second for each look at it, one pod is written in a round."""
    monkeypatch.setenv("PATH", systemd.environment["PATH"])
    clock = count()
    keeper = Keeper(Registry(), clock=lambda: float(next(clock)))
    wanted = [Limit(str(systemd.pod(SYSTEMD.replace("0f", f"{n:02x}", 1))), BLOCK) for n in range(5)]
    for number, written in enumerate((1, 2, 3, 4, 5, 5)):
        keeper.keep(wanted, float(number))
        assert (len(systemd.calls), keeper.problems) == (written, ())


def test_an_ill_systemd_gets_to_all_pods_in_the_end(systemd: SystemdDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes longer than a round may; who failed waits until the others had their turn."""
    monkeypatch.setenv("PATH", systemd.environment["PATH"])
    clock = count()
    keeper = Keeper(Registry(), clock=lambda: float(next(clock)))
    wanted = [Limit(str(systemd.pod(SYSTEMD.replace("0f", f"{n:02x}", 1))), BLOCK) for n in range(8)]
    systemd.ill.touch()
    for number in range(8):
        keeper.keep(wanted, number * RETRY_SECONDS)
    assert len({call.split()[3] for call in systemd.calls}) == 8
    assert len(keeper.problems) == TOLD + 1
    assert keeper.problems[-1] == "… and 5 more pods"
