# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import (
    Mount,
    cgroup_mode,
    parse_mountinfo,
)

TMPFS = Mount("/sys/fs/cgroup", "tmpfs")
V1 = Mount("/sys/fs/cgroup/memory", "cgroup")
UNIFIED = Mount("/sys/fs/cgroup/unified", "cgroup2")
V2 = Mount("/sys/fs/cgroup", "cgroup2")


@pytest.mark.parametrize(
    ("mounts", "mode"),
    [
        ([], "none"),
        ([Mount("/", "ext4"), Mount("/sys", "sysfs")], "none"),
        ([TMPFS], "none"),
        ([V2], "v2"),
        ([TMPFS, V1], "v1"),
        ([TMPFS, UNIFIED, V1], "hybrid"),
        ([TMPFS, V1, V2], "v2"),
        ([V2, TMPFS, V1], "v1"),
        ([V2, Mount("/sys/fs/cgroup/net_cls", "cgroup")], "v2"),
        ([Mount("/sys/fs/cgroup", "cgroup")], "v1"),
        ([Mount("/sys/fs/cgroup2", "cgroup2"), TMPFS, V1], "v1"),
    ],
)
def test_the_file_system_at_the_root_decides(mounts: list[Mount], mode: str) -> None:
    assert cgroup_mode(mounts) == mode


def test_optional_fields_and_escapes() -> None:
    optional = "36 35 98:0 /a /mnt/b\\040c rw shared:1 master:2 - ext4 /dev/x rw\n"
    plain = "37 35 0:1 / /plain rw - tmpfs none rw\n"
    assert parse_mountinfo(f"{optional}{plain}rubbish\n") == [Mount("/mnt/b c", "ext4"), Mount("/plain", "tmpfs")]


points = st.text(st.characters(categories=("L", "N"), include_characters=" \\\t-"), min_size=1, max_size=8)


@given(st.lists(st.tuples(points, st.sampled_from(["ext4", "cgroup", "cgroup2"]))))
def test_every_mount_is_read_whatever_its_name(mounts: list[tuple[str, str]]) -> None:
    def escape(text: str) -> str:
        return text.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")

    text = "".join(f"1 0 0:1 / /{escape(point)} rw - {kind} none rw\n" for point, kind in mounts)
    assert parse_mountinfo(text) == [Mount(f"/{point}", kind) for point, kind in mounts]


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert cgroup_mode(parse_mountinfo(text)) in ("v2", "hybrid", "v1", "none")
