# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import Mount
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_mounts import (
    MountError,
    beneath,
    fstab_beneath,
    mounted_beneath,
    unmount_beneath,
    wipe,
)

LINE = "{n} 28 0:47 / {point} rw,relatime shared:1 - {kind} source rw\n"


class Table:
    """A mount table that umount changes; what is busy stays."""

    def __init__(self, place: Path) -> None:
        self.home = place / "kubelet"
        self.home.mkdir()
        self.file = place / "mountinfo"
        self.mounts: list[tuple[str, str]] = []
        self.busy: dict[str, int] = {}
        self.calls: list[list[str]] = []
        self.write()

    def add(self, point: str, kind: str = "ext4", busy: int = 0) -> None:
        self.mounts.append((point, kind))
        self.busy[point] = busy
        self.write()

    def write(self) -> None:
        lines = [LINE.format(n=n, point=point, kind=kind) for n, (point, kind) in enumerate(self.mounts)]
        self.file.write_text("".join(lines))

    def run(self, command: list[str]) -> tuple[int, str, str]:
        self.calls.append(command)
        point = command[-1].replace(" ", "\\040")
        if self.busy[point]:
            self.busy[point] -= 1
            return 32, "", f"umount: {point}: target is busy."
        last = max(n for n, (at, _kind) in enumerate(self.mounts) if at == point)
        del self.mounts[last]
        self.write()
        return 0, "", ""

    def unmount(self) -> list[str]:
        return unmount_beneath(str(self.home), self.run, pause=lambda: None, mountinfo=str(self.file))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_the_last_mount_goes_first_and_the_directorys_own_stays(table: Table) -> None:
    home = str(table.home)
    for point in (
        home,
        f"{home}/pods/1/volume",
        f"{home}/pods/1/volume",
        f"{home}/pods/1/volume/inner",
        f"{home}-two/x",
    ):
        table.add(point)
    assert table.unmount() == [f"{home}/pods/1/volume/inner", f"{home}/pods/1/volume", f"{home}/pods/1/volume"]
    assert [point for point, _kind in table.mounts] == [home, f"{home}-two/x"]


def test_what_is_busy_for_a_moment_is_tried_again_and_what_stays_busy_is_named(table: Table) -> None:
    table.add(f"{table.home}/a", busy=2)
    assert table.unmount() == [f"{table.home}/a"]
    table.add(f"{table.home}/b", busy=99)
    with pytest.raises(MountError, match=r"kubelet/b \(umount: .*busy.*\).*fuser"):
        table.unmount()


def test_file_systems_of_the_network_are_let_go_and_names_may_have_spaces(table: Table) -> None:
    table.add(f"{table.home}/a\\040b", "nfs4")
    table.add(f"{table.home}/c", "fuse.sshfs")
    table.add(f"{table.home}/d", "tmpfs")
    assert len(table.unmount()) == 3
    assert table.calls == [
        ["umount", "--", f"{table.home}/d"],
        ["umount", "-f", "-l", "--", f"{table.home}/c"],
        ["umount", "-f", "-l", "--", f"{table.home}/a b"],
    ]


def test_nothing_is_removed_beside_a_mount(table: Table) -> None:
    (table.home / "config.yaml").write_text("x")
    (table.home / "volume").mkdir()
    (table.home / "volume" / "data").write_text("precious")
    table.add(f"{table.home}/volume")
    with pytest.raises(MountError, match="volume is mounted"):
        wipe(str(table.home), str(table.file))
    assert (table.home / "volume" / "data").read_text() == "precious"
    assert (table.home / "config.yaml").exists()


def test_a_directory_is_emptied_and_stays_and_links_are_not_followed(table: Table, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (table.home / "link").symlink_to(outside)
    (table.home / "pods").mkdir()
    (table.home / "pods" / "file").write_text("x")
    assert wipe(str(table.home), str(table.file)) == [f"{table.home}/link", f"{table.home}/pods"]
    assert table.home.is_dir() and (outside / "file").read_text() == "mine"
    assert wipe(str(tmp_path / "nothing"), str(table.file)) == []


def test_a_directory_behind_a_link_is_the_one_that_counts(table: Table, tmp_path: Path) -> None:
    (tmp_path / "behind").symlink_to(table.home)
    table.add(f"{table.home}/a")
    assert mounted_beneath(str(tmp_path / "behind"), str(table.file)) == [Mount(f"{table.home}/a", "ext4")]


def test_beneath() -> None:
    mounts = [Mount("/a", "x"), Mount("/a/b", "x"), Mount("/ab", "x"), Mount("/a/b/c", "x")]
    assert [one.point for one in beneath(mounts, "/a/")] == ["/a/b/c", "/a/b"]


def test_what_fstab_mounts_beneath() -> None:
    text = (
        "# /dev/x /var/lib/kubelet/no ext4 defaults 0 0\n/dev/a /var/lib/kubelet ext4 defaults 0 0\n\n"
        "/dev/b /var/lib/kubelet/pods/deep ext4 defaults 0 0\n/dev/b /var/lib/kubelet/pods ext4 defaults 0 0\n"
        "/dev/c /var/lib/kubelet/c ext4 noauto 0 0\n/dev/d /var/lib/kubelet-2/d ext4 defaults 0 0\n"
        "/dev/e /var/lib/kubelet/e\\040f ext4 defaults 0 0\n"
    )
    assert fstab_beneath(text, "/var/lib/kubelet") == [
        "/var/lib/kubelet/e f",
        "/var/lib/kubelet/pods",
        "/var/lib/kubelet/pods/deep",
    ]
