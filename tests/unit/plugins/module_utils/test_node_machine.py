# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import nearest_existing, read_disks
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import parse_os_release, read_machine


def test_os_release_of_debian() -> None:
    system = parse_os_release('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n#ID=other\nVERSION_ID="13"\n')
    assert (system.id, system.version_id, system.name) == ("debian", "13", "Debian GNU/Linux 13 (trixie)")


def test_os_release_of_a_child_system() -> None:
    system = parse_os_release(
        'NAME=\'Rocky Linux\'\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID=9.4\nBAD="x\n'
    )
    assert (system.id, system.version_id, system.name) == ("rocky", "9.4", "Rocky Linux")
    assert system.id_like == ("rhel", "centos", "fedora")


words = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S"), exclude_characters="\"\\`$'"), min_size=1)


@given(words, words)
def test_quoted_values_come_back(name: str, version: str) -> None:
    system = parse_os_release(f'NAME="{name}"\nVERSION_ID="{version}"\n')
    assert (system.name, system.version_id) == (name, version)


@given(st.text())
def test_any_os_release_is_read(text: str) -> None:
    parse_os_release(text)


def test_the_machine_is_read_under_its_root(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "etc/machine-id").write_text("abc\n")
    (tmp_path / "usr/lib/os-release").write_text("ID=fedora\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       24684092 kB\nMemFree: 5 kB\n")
    machine = read_machine(str(tmp_path), "python")
    assert machine.memory_mib == 24105
    assert (machine.machine_id, machine.first_process, machine.system.id) == ("abc", "", "fedora")


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/var/lib", "/var/lib"),
        ("/var/lib/containerd/x", "/var/lib"),
        ("/opt", "/"),
        ("/", "/"),
        ("/var/../opt/x", "/"),
    ],
)
def test_a_path_to_be_made_is_measured_above(tmp_path: Path, path: str, nearest: str) -> None:
    (tmp_path / "var/lib").mkdir(parents=True)
    assert nearest_existing(str(tmp_path), path) == nearest
    disk = read_disks(str(tmp_path), [path])[0]
    assert (disk.path, disk.measured_at) == (path, nearest)
    assert 0 <= disk.free_mib <= disk.size_mib
