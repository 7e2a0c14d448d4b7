# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The parsers of swap's texts: tables first, then properties."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils import _swap_parse as parse
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapDevice

PROC_SWAPS = """\
Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/vdb1                               partition\t524284\t\t12\t\t-2
/swap\\040file\\134x                       file\t\t1048572\t\t0\t\t-3
/dev/zram0                              partition\t2015228\t\t512\t\t100
/gone\\040(deleted)                       file\t\t65532\t\t0\t\t-4
"""


def test_proc_swaps() -> None:
    assert parse.parse_proc_swaps(PROC_SWAPS) == (
        SwapDevice("/dev/vdb1", "partition", 524284, 12, -2),
        SwapDevice("/swap file\\x", "file", 1048572, 0, -3),
        SwapDevice("/dev/zram0", "zram", 2015228, 512, 100),
        SwapDevice("/gone (deleted)", "file", 65532, 0, -4),
    )


@pytest.mark.parametrize("text", ["", "\n", "Filename Type Size Used Priority\n"])
def test_no_swap_at_all(text: str) -> None:
    assert parse.parse_proc_swaps(text) == ()


@pytest.mark.parametrize("line", ["/x file 1 2", "/x file 1 2 3 4", "/x file one 2 3", "nonsense"])
def test_a_line_of_proc_swaps_that_makes_no_sense_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"/proc/swaps line 1"):
        parse.parse_proc_swaps(line + "\n")


@pytest.mark.parametrize(
    ("line", "spec", "noauto"),
    [
        ("/swapfile none swap sw 0 0", "/swapfile", False),
        ("\t /swapfile\t\tnone\tswap", "/swapfile", False),
        ("/swap\\040file none swap defaults", "/swap file", False),
        ("UUID=1-2 swap swap pri=1,nofail 0 0 # comment", "UUID=1-2", False),
        ("/swapfile none swap noauto 0 0", "/swapfile", True),
        ("/swapfile none swap noauto,auto 0 0", "/swapfile", False),
        ("/swapfile none swap auto,pri=3,noauto", "/swapfile", True),
        ("/swapfile none swap\r", "/swapfile", False),
        ("/swapfile none swap sw,noauto\r", "/swapfile", True),
    ],
)
def test_swap_lines_of_fstab(line: str, spec: str, noauto: bool) -> None:
    content = f"# first\n{line}\n".encode()
    assert parse.parse_fstab(content) == (parse.FstabSwap(2, spec, noauto),)
    commented = content if noauto else content.replace(line.encode(), parse.MARKER + line.encode())
    assert parse.comment_fstab(content) == commented


@pytest.mark.parametrize(
    "line",
    [
        "",
        "#/swapfile none swap sw",
        " # /swapfile none swap",
        "/swap / ext4 defaults 0 1",
        "swap /tmp tmpfs swap",
        "a swap",
    ],
)
def test_what_is_no_swap_line(line: str) -> None:
    assert parse.parse_fstab(line.encode()) == ()
    assert parse.comment_fstab(line.encode()) == line.encode()


FIELDS = st.sampled_from(
    [b"/swapfile", b"none", b"swap", b"ext4", b"noauto", b"#", b"\xff\xfe", b"UUID=1", b"", b"\x00"]
)
LINES = st.lists(FIELDS, max_size=6).flatmap(
    lambda fields: st.sampled_from([b" ", b"\t", b"\t \t"]).map(lambda gap: gap.join(fields))
)
FSTABS = st.lists(st.one_of(LINES, st.binary(max_size=20)), max_size=8).flatmap(
    lambda lines: st.sampled_from([b"\n", b"\r\n"]).map(lambda end: end.join(lines))
)


@given(FSTABS)
def test_commenting_adds_the_marker_and_nothing_else(content: bytes) -> None:
    commented = parse.comment_fstab(content)
    at_boot = [swap for swap in parse.parse_fstab(content) if not swap.noauto]
    old, new = content.split(b"\n"), commented.split(b"\n")
    assert len(old) == len(new)
    for number, (before, after) in enumerate(zip(old, new, strict=True), start=1):
        is_swap = number in {swap.line for swap in at_boot}
        assert after == (parse.MARKER + before if is_swap else before)
    assert [swap for swap in parse.parse_fstab(commented) if not swap.noauto] == []
    assert parse.comment_fstab(commented) == commented


@given(st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_names_of_proc_swaps_survive_the_kernels_escaping(name: str) -> None:
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in f"/{name}")
    (device,) = parse.parse_proc_swaps(f"{escaped} file 1 2 -3\n")
    assert device.name == f"/{name}"


@given(st.text(max_size=200))
def test_no_text_but_a_clear_error(text: str) -> None:
    try:
        parse.parse_proc_swaps(text)
    except ValueError as error:
        assert "/proc/swaps line" in str(error)
    parse.parse_meminfo(text)
    parse.parse_ini(text)
    parse.cmdline_switch(text, "systemd.swap")
    parse.swap_unit_device(text)


@pytest.mark.parametrize(
    ("spec", "device"),
    [
        ("/swapfile", "/swapfile"),
        ("UUID=aa-bb", "/dev/disk/by-uuid/aa-bb"),
        ('LABEL="sw"', "/dev/disk/by-label/sw"),
        ("LABEL=my swap", "/dev/disk/by-label/my\\x20swap"),
        ("PARTLABEL=a/b", "/dev/disk/by-partlabel/a\\x2fb"),
        ("PARTUUID=1", "/dev/disk/by-partuuid/1"),
        ("/x=y", "/x=y"),
    ],
)
def test_the_device_of_a_spec(spec: str, device: str) -> None:
    assert parse.device_of_spec(spec) == device


# printed by systemd-escape --path --suffix=swap of systemd 252
UNIT_NAMES = [
    ("/swapfile", "swapfile.swap"),
    ("/dev/disk/by-uuid/aa-bb", "dev-disk-by\\x2duuid-aa\\x2dbb.swap"),
    ("/var/swap file", "var-swap\\x20file.swap"),
    ("/.hid", "\\x2ehid.swap"),
    ("/a//b/", "a-b.swap"),
    ("/ünïcode", "\\xc3\\xbcn\\xc3\\xafcode.swap"),
    ("/dev/mapper/vg-sw\\x", "dev-mapper-vg\\x2dsw\\x5cx.swap"),
    ("/a-b/c_d:e.f", "a\\x2db-c_d:e.f.swap"),
]


@pytest.mark.parametrize(("device", "unit"), UNIT_NAMES)
def test_unit_names(device: str, unit: str) -> None:
    assert parse.swap_unit_name(device) == unit
    assert parse.swap_unit_device(unit) == device.replace("//", "/").rstrip("/")


PATHS = st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(PATHS.map(lambda part: part.replace("/", "")).filter(bool), min_size=1, max_size=4))
def test_a_unit_name_leads_back_to_its_device(parts: list[str]) -> None:
    device = "/" + "/".join(parts)
    assert parse.swap_unit_device(parse.swap_unit_name(device)) == device


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="no systemd-escape on this machine")
@settings(max_examples=15, deadline=None)
@given(
    st.lists(PATHS.map(lambda part: part.replace("/", "")).filter(lambda part: part.strip(".")), min_size=1, max_size=3)
)
def test_unit_names_are_those_of_systemd_escape(parts: list[str]) -> None:
    device = "/" + "/".join(parts)
    command = ["systemd-escape", "--path", "--suffix=swap", "--", device]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert parse.swap_unit_name(device) == done.stdout.removesuffix("\n")


GIB = 1024 * 1024


@pytest.mark.parametrize(
    ("texts", "devices"),
    [
        ([], ()),
        (["# nothing\n"], ()),
        (["[zram0]\n"], ("zram0",)),
        (["[zram10]\n[zram2]\n"], ("zram2", "zram10")),
        (["[zram1]\nmount-point = /var/tmp\n"], ()),
        (["[zram1]\nfs-type=ext4\n"], ()),
        (["[zram1]\nfs-type=swap\n"], ("zram1",)),
        (["[zram0]\nhost-memory-limit = 2048\n"], ()),
        (["[zram0]\nhost-memory-limit = 8192\n"], ("zram0",)),
        (["[zram0]\nhost-memory-limit = 2048\n", "[zram0]\nhost-memory-limit = none\n"], ("zram0",)),
        (["[zram0]\n", "[zram0]\nzram-size = 0\n"], ()),
        (["[zram0]\nzram-size = min(ram / 2, 4096)\n"], ("zram0",)),
        (["[zram]\n[zramx]\n[other]\n"], ()),
        (["; [zram0]\n#[zram1]\n"], ()),
    ],
)
def test_what_zram_generator_swaps_to(texts: list[str], devices: tuple[str, ...]) -> None:
    assert parse.zram_swaps(texts, 4 * GIB) == devices


def test_fragments_come_after_the_main_file_by_name() -> None:
    assert parse.order_fragments("main", [("20-b", "b"), ("10-a", "a")]) == ("main", "a", "b")
    assert parse.order_fragments(None, []) == ()


@pytest.mark.parametrize(
    ("cmdline", "value"),
    [
        ("ro quiet", None),
        ("systemd.swap=0", False),
        ("systemd.swap", True),
        ("systemd.swap=no systemd.swap=yes", True),
        ("systemd.swap=off", False),
        ("xsystemd.swap=0", None),
    ],
)
def test_switches_of_the_kernel_command_line(cmdline: str, value: bool | None) -> None:
    assert parse.cmdline_switch(cmdline, "systemd.swap") is value


def test_meminfo() -> None:
    text = "MemTotal:        8000 kB\nMemAvailable:    1234 kB\nHugePages_Total:       0\nActive(anon):  5 kB\n"
    assert parse.parse_meminfo(text) == {
        "MemTotal": 8000,
        "MemAvailable": 1234,
        "HugePages_Total": 0,
        "Active(anon)": 5,
    }
