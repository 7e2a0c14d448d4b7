# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A pod's cgroup: what it uses, and its first and last rung on kernels old and new."""

from __future__ import annotations

from pathlib import Path

import pytest

from colocation.device_plugin.reclaim_cgroup import Use, kill, read, squeeze

NAME = "kubepods-pod0f31a2b4_1111_4222_8333_44445555aaaa.slice"
STAT = "inactive_anon 1000\nactive_anon 200\nkernel 300\nslab_reclaimable 100\ninactive_file 50\nactive_file 400\n"


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    directory = tmp_path / "kubepods.slice" / NAME
    directory.mkdir(parents=True)
    for name, text in (("memory.high", "max"), ("memory.max", "900000"), ("memory.current", "800000")):
        (directory / name).write_text(f"{text}\n")
    return directory


def test_a_pod_that_is_gone_uses_nothing(pod: Path) -> None:
    assert read(str(pod)) is None
    (pod / "memory.stat").write_text("half a li")
    assert read(str(pod)) is None
    (pod / "memory.stat").write_text(STAT)
    assert read(str(pod)) == Use(1400, 450)


def test_page_cache_is_dropped_by_the_kernels_own_means(pod: Path) -> None:
    (pod / "memory.reclaim").touch()
    assert squeeze(str(pod), 4096) == ""
    assert (pod / "memory.reclaim").read_text() == "4096"
    assert (pod / "memory.high").read_text() == "max\n"


def test_on_an_old_kernel_by_a_limit_that_goes_back(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    monkeypatch.setattr(
        "colocation.device_plugin.reclaim_cgroup._write",
        lambda _cgroup, name, text: written.append(name_of(name, text)),
    )

    def name_of(name: str, text: str) -> str:
        if name in ("memory.reclaim", "cgroup.kill"):
            raise FileNotFoundError
        return f"{name}={text}"

    assert squeeze(str(pod), 300000) == ""
    assert kill(str(pod)) == ""
    assert written == ["memory.high=500000", "memory.high=max", "memory.max=0", "memory.max=900000"]


def test_a_pod_is_ended_by_the_kernels_own_means(pod: Path) -> None:
    (pod / "cgroup.kill").touch()
    assert kill(str(pod)) == ""
    assert (pod / "cgroup.kill").read_text() == "1"


@pytest.mark.parametrize("path", ["", "kubepods.slice", "kubepods.slice/kubepods-besteffort.slice", f"x/{NAME}/scope"])
def test_nothing_above_or_below_a_pod_is_touched(pod: Path, tmp_path: Path, path: str) -> None:
    directory = tmp_path / path
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("cgroup.kill", "memory.reclaim", "memory.max", "memory.high"):
        (directory / name).write_text("as it was")
    assert "is no pod's cgroup" in squeeze(str(directory), 1)
    assert "is no pod's cgroup" in kill(str(directory))
    assert {file.read_text() for file in directory.iterdir() if file.is_file()} == {"as it was"}


def test_a_pod_that_is_gone_needs_nothing(tmp_path: Path) -> None:
    gone = str(tmp_path / NAME)
    assert (squeeze(gone, 1), kill(gone)) == ("", "")
