# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""read_swap on a double of a node, and the plans made from what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._swap import read_swap
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import (
    SwapDevice,
    SwapFacts,
    SwapSource,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_gpt import NO_AUTO, root_device
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_plan import (
    Step,
    missing_memory,
    plan,
    unit_to_mask,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.swap_node import SwapNode


@pytest.fixture
def node(tmp_path: Path) -> SwapNode:
    return SwapNode(tmp_path)


def read(node: SwapNode) -> SwapFacts:
    return read_swap(str(node.root), node.run)


def kinds(node: SwapNode) -> list[str]:
    return [source.kind for source in read(node).sources]


def test_a_node_without_swap(node: SwapNode) -> None:
    facts = read(node)
    assert facts.off
    assert facts.available_kib == 1_000_000
    assert facts.lines() == []


def test_an_empty_root_has_no_swap(tmp_path: Path) -> None:
    assert read_swap(str(tmp_path), lambda _command: (127, "", "no systemctl")).off


def test_where_and_what(node: SwapNode) -> None:
    node.add_fstab("UUID=ab none swap sw 0 0\n")
    node.add_unit("swap-a.swap", "/swap/a")
    node.add_service("zramswap.service")
    node.boot()
    facts = read(node)
    assert [(source.kind, source.where, source.device) for source in facts.sources] == [
        ("fstab", "/etc/fstab:3", "UUID=ab"),
        ("unit", "/etc/systemd/system/swap-a.swap", "/swap/a"),
        ("service", "/usr/lib/systemd/system/zramswap.service", ""),
    ]
    assert {device.kind for device in facts.active} == {"partition", "file", "zram"}


def test_a_unit_that_nothing_pulls_in_is_no_source(node: SwapNode) -> None:
    node.write("etc/systemd/system/swap-a.swap", "[Swap]\nWhat=/swap/a\n")
    assert kinds(node) == []


def test_a_unit_that_another_unit_names_is_a_source(node: SwapNode) -> None:
    """No link tells of it; systemd does."""
    node.write("etc/systemd/system/swap-a.swap", "[Swap]\nWhat=/swap/a\n")
    answer = "Id=swap-b.swap\nWantedBy=swap.target\n\nId=swap-a.swap\nRequiredBy=app.service\nWantedBy=\n"
    facts = read_swap(str(node.root), lambda _command: (0, answer, ""))
    assert [source.where for source in facts.sources] == ["/etc/systemd/system/swap-a.swap"]


@pytest.mark.parametrize("by_empty_file", [True, False])
def test_a_masked_unit_is_no_source(node: SwapNode, by_empty_file: bool) -> None:
    node.add_unit("swap-a.swap", "/swap/a", "usr/lib/systemd/system")
    assert kinds(node) == ["unit"]
    if by_empty_file:
        node.write("etc/systemd/system/swap-a.swap", "")
    else:
        node.link("etc/systemd/system/swap-a.swap", "/dev/null")
    assert kinds(node) == []


def test_a_mask_beneath_a_real_file_counts_for_nothing(node: SwapNode) -> None:
    node.add_unit("swap-a.swap", "/swap/a")
    node.link("run/systemd/system/swap-a.swap", "/dev/null")
    assert kinds(node) == ["unit"]


def test_a_masked_swap_target_holds_back_what_only_it_pulls_in(node: SwapNode) -> None:
    node.add_unit("swap-a.swap", "/swap/a")
    node.add_unit("swap-b.swap", "/swap/b", by="multi-user.target")
    node.add_gpt_swap()
    node.add_zram_generator("[zram0]\n")
    assert sorted(kinds(node)) == ["gpt-auto", "unit", "unit", "zram-generator"]
    node.link("etc/systemd/system/swap.target", "/dev/null")
    assert [source.device for source in read(node).sources] == ["/swap/b"]


def test_a_line_of_fstab_counts_under_a_masked_swap_target_too(node: SwapNode) -> None:
    """`swapon -a` does not ask systemd."""
    node.add_fstab("/swapfile none swap sw 0 0\n")
    node.link("etc/systemd/system/swap.target", "/dev/null")
    assert kinds(node) == ["fstab"]


@pytest.mark.parametrize(
    "spoil",
    [
        {"flags": hex(NO_AUTO)},
        {"scheme": "dos"},
        {"guid": "0fc63daf-8483-4772-8e79-3d69d8477de4"},
    ],
)
def test_partitions_that_the_generator_leaves_alone(node: SwapNode, spoil: dict[str, str]) -> None:
    node.add_gpt_swap(**spoil)
    assert kinds(node) == []


@pytest.mark.parametrize("switch", ["systemd.gpt_auto=0", "systemd.swap=no"])
def test_the_kernel_command_line_can_switch_the_generator_off(node: SwapNode, switch: str) -> None:
    node.add_gpt_swap()
    assert kinds(node) == ["gpt-auto"]
    node.write("proc/cmdline", f"root=/dev/vda1 {switch}\n")
    assert kinds(node) == []


def test_a_masked_generator_makes_nothing(node: SwapNode) -> None:
    node.add_gpt_swap()
    node.add_zram_generator("[zram0]\n")
    for name in ("systemd-gpt-auto-generator", "zram-generator"):
        node.link(f"etc/systemd/system-generators/{name}", "/dev/null")
    assert kinds(node) == []


def test_a_partition_on_another_disk_than_the_roots(node: SwapNode) -> None:
    node.add_gpt_swap()
    node.write("proc/self/mountinfo", "22 1 254:16 / / rw shared:1 - ext4 /dev/vdb rw\n")
    node.write("sys/devices/pci0/virtio2/block/vdb/dev", "254:16\n")
    node.link("sys/dev/block/254:16", "../../devices/pci0/virtio2/block/vdb")
    assert kinds(node) == []


def test_the_root_disk_below_lvm_and_luks(node: SwapNode) -> None:
    node.add_gpt_swap()
    node.write("proc/self/mountinfo", "22 1 253:1 / / rw shared:1 - ext4 /dev/mapper/vg-root rw\n")
    block = "sys/devices/virtual/block"
    for name, below in (("dm-1", "../../dm-0"), ("dm-0", "../../../../pci0/virtio1/block/vda/vda1")):
        node.write(f"{block}/{name}/dev", "253:x\n")
        node.link(f"{block}/{name}/slaves/x", below)
    node.link("sys/dev/block/253:1", "../../devices/virtual/block/dm-1")
    assert kinds(node) == ["gpt-auto"]
    node.link(f"{block}/dm-1/slaves/y", "../../dm-0")
    assert kinds(node) == [], "a root on several disks keeps the generator away"


def test_what_the_generator_made_is_taken_where_the_disk_tells_nothing(node: SwapNode) -> None:
    node.gpt_swap = "/dev/vda3"
    node.boot()
    (source,) = read(node).sources
    assert (source.kind, source.device) == ("gpt-auto", "/dev/disk/by-diskseq/1-part3")
    assert unit_to_mask(source) == "swap.target"


def test_unknown_generators_are_masked_by_their_units_name(node: SwapNode) -> None:
    node.write("run/systemd/generator/x.swap", "# Automatically generated by other\n[Swap]\nWhat=/x\n")
    node.link("run/systemd/generator/swap.target.wants/x.swap", "../x.swap")
    (source,) = read(node).sources
    assert (source.kind, unit_to_mask(source)) == ("generated", "x.swap")


def test_units_above_etc_can_only_be_held_back_by_swap_target(node: SwapNode) -> None:
    node.write("run/systemd/generator.early/x.swap", "[Swap]\nWhat=/x\n")
    node.link("run/systemd/generator.early/swap.target.wants/x.swap", "../x.swap")
    (source,) = read(node).sources
    assert unit_to_mask(source) == "swap.target"
    node.link("etc/systemd/system/swap.target", "/dev/null")
    assert kinds(node) == []


def test_zram_configuration_in_all_its_places(node: SwapNode) -> None:
    node.add_zram_generator("[zram0]\n", "usr/lib/systemd/zram-generator.conf")
    node.write("usr/lib/systemd/zram-generator.conf.d/10-a.conf", "[zram1]\n")
    node.write("usr/lib/systemd/zram-generator.conf.d/20-b.conf", "[zram2]\nmount-point=/mnt\n")
    node.write("usr/lib/systemd/zram-generator.conf.d/ignored.txt", "[zram9]\n")
    assert [source.device for source in read(node).sources] == ["/dev/zram0", "/dev/zram1"]
    node.write("etc/systemd/zram-generator.conf", "")
    assert [source.device for source in read(node).sources] == ["/dev/zram1"]
    node.link("etc/systemd/zram-generator.conf.d/10-a.conf", "/dev/null")
    assert kinds(node) == []
    node.write("proc/cmdline", "systemd.zram\n")
    assert [source.device for source in read(node).sources] == ["/dev/zram0"]
    node.write("proc/cmdline", "systemd.zram=0\n")
    node.path("etc/systemd/zram-generator.conf").unlink()
    assert kinds(node) == []


def test_zram_without_the_generator_is_nothing(node: SwapNode) -> None:
    node.write("etc/systemd/zram-generator.conf", "[zram0]\n")
    assert kinds(node) == []


def test_a_unit_that_zram_generator_made_from_a_lost_configuration(node: SwapNode) -> None:
    node.add_zram_generator("[zram0]\n")
    node.boot()
    node.path("etc/systemd/zram-generator.conf").unlink()
    (source,) = read(node).sources
    assert (source.kind, unit_to_mask(source)) == ("generated", "dev-zram0.swap")


def test_a_service_that_is_not_enabled_is_no_source(node: SwapNode) -> None:
    node.write("usr/lib/systemd/system/zramswap.service", "[Service]\n")
    assert kinds(node) == []


def device(name: str, used_kib: int = 0) -> SwapDevice:
    return SwapDevice(name, "file", 100, used_kib, -2)


def source(kind: str, where: str, detail: str = "") -> SwapSource:
    return SwapSource(kind, where, "/x", detail)


def test_a_plan_is_in_order_and_takes_each_step_once() -> None:
    facts = SwapFacts(
        (device("/a"), device("/b")),
        (
            source("fstab", "/etc/fstab:1"),
            source("fstab", "/etc/fstab:2"),
            source("gpt-auto", "generator", "swap.target"),
            source("gpt-auto", "generator", "swap.target"),
            source("service", "/usr/lib/systemd/system/zramswap.service"),
        ),
    )
    assert plan(facts) == (
        Step("comment", "/etc/fstab"),
        Step("mask", "swap.target"),
        Step("reload", "systemd"),
        Step("swapoff", "/a"),
        Step("swapoff", "/b"),
        Step("retire", "zramswap.service"),
    )


def test_no_reload_where_only_devices_are_on() -> None:
    assert plan(SwapFacts((device("/a"),), ())) == (Step("swapoff", "/a"),)
    assert plan(SwapFacts((), ())) == ()


@pytest.mark.parametrize(("used", "available", "missing"), [(0, 0, 0), (10, 10, 0), (11, 10, 1), (10, 100, 0)])
def test_memory_that_is_missing(used: int, available: int, missing: int) -> None:
    facts = SwapFacts((device("/a", used), device("/b")), (), available)
    assert missing_memory(facts) == missing


@pytest.mark.parametrize(
    ("mountinfo", "found"),
    [
        ("", None),
        ("1 0 0:2 / / rw - rootfs none rw\n22 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n", ("254:1", "/dev/vda1")),
        ("23 22 254:2 / /boot rw - ext4 /dev/vda2 rw\n", None),
        ("22 1 0:30 /@ / rw - btrfs /dev/my\\040disk rw\n", ("0:30", "/dev/my disk")),
    ],
)
def test_the_device_of_the_root(mountinfo: str, found: tuple[str, str] | None) -> None:
    assert root_device(mountinfo) == found
