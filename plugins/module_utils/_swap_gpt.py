# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Swap partitions that systemd-gpt-auto-generator switches on without being told.

The generator looks only at the disk that holds the root file system, and only while fstab names no
swap at all. So commenting fstab wakes it: such a partition has to be known before, or swap is back
after the reboot. What it would find is read from sysfs and from udev's records; no disk is opened.
"""

from __future__ import annotations

import os

from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_parse import decode_octal
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_units import below, read_text

SWAP_TYPE = "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"
NO_AUTO = 1 << 63  # the partition's own "leave me alone" attribute


def gpt_swap_partitions(root: str) -> tuple[str, ...]:
    """The swap partitions (/dev/vda3) on the root disk that the generator may take."""
    disk = _root_disk(root)
    if disk is None:
        return ()
    found = []
    for name in sorted(os.listdir(disk)):
        if os.path.exists(os.path.join(disk, name, "partition")):
            number = (read_text(os.path.join(disk, name, "dev")) or "").strip()
            if _is_auto_swap(_udev_record(root, number)):
                found.append(f"/dev/{name}")
    return tuple(found)


def root_device(mountinfo: str) -> tuple[str, str] | None:
    """Number (254:1) and source (/dev/vda1) of what is mounted at /; the last mount there counts."""
    found = None
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) > 6 and fields[4] == "/" and "-" in fields:
            after = fields[fields.index("-") + 1 :]
            found = (fields[2], decode_octal(after[1]) if len(after) > 1 else "")
    return found


def parse_udev_record(text: str) -> dict[str, str]:
    """The properties in a record of udev's database."""
    pairs = (line[2:].partition("=") for line in text.splitlines() if line.startswith("E:"))
    return {key: value for key, _equals, value in pairs}


def _is_auto_swap(record: dict[str, str]) -> bool:
    if record.get("ID_PART_ENTRY_SCHEME") != "gpt" or record.get("ID_PART_ENTRY_TYPE", "").lower() != SWAP_TYPE:
        return False
    try:
        flags = int(record.get("ID_PART_ENTRY_FLAGS", "0"), 0)
    except ValueError:
        flags = 0
    return not flags & NO_AUTO


def _udev_record(root: str, number: str) -> dict[str, str]:
    return parse_udev_record(read_text(below(root, f"/run/udev/data/b{number}")) or "")


def _root_disk(root: str) -> str | None:
    """The sysfs directory of the one disk under the root file system; None when there is none, or several."""
    device = root_device(read_text(below(root, "/proc/self/mountinfo")) or "")
    if device is None:
        return None
    number, source = device
    path = below(root, f"/sys/dev/block/{number}")
    if not os.path.exists(path):  # btrfs has no number of its own there
        path = below(root, f"/sys/class/block/{os.path.basename(os.path.realpath(below(root, source)))}")
    if not source or not os.path.exists(path):
        return None
    path = os.path.realpath(path)
    for _depth in range(16):  # LUKS on LVM on a partition: follow while there is just one below
        slaves = os.path.join(path, "slaves")
        names = os.listdir(slaves) if os.path.isdir(slaves) else []
        if not names:
            break
        if len(names) > 1:
            return None
        path = os.path.realpath(os.path.join(slaves, names[0]))
    return os.path.dirname(path) if os.path.exists(os.path.join(path, "partition")) else path
