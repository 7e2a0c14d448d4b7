# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The texts that speak of swap: /proc/swaps, fstab, swap units, zram-generator.conf, /proc/meminfo.

Text in, values out: nothing here opens a file or knows which machine it is on. fstab is handled as
bytes, because whatever is not a swap line must come out exactly as it went in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapDevice

MARKER = b"# colocation.kubernetes node_swap: "
"""What stands before a line of fstab that we commented out."""

_OCTAL = re.compile(r"\\([0-7]{3})")
_ZRAM_SECTION = re.compile(r"zram[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class FstabSwap:
    """A swap line of fstab."""

    line: int  # counted from 1
    spec: str  # as written, escapes resolved: UUID=…, /swapfile
    noauto: bool  # not switched on at boot

    @property
    def device(self) -> str:
        """The path that systemd makes of the spec; its unit is named after it."""
        return device_of_spec(self.spec)


def decode_octal(text: str) -> str:
    r"""Undo the kernel's and fstab's escaping (``\040`` is a space)."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)


def parse_proc_swaps(text: str) -> tuple[SwapDevice, ...]:
    """The devices of /proc/swaps. A line that does not look like one is an error: it could be swap that stays on."""
    devices = []
    for number, line in enumerate(text.split("\n"), start=1):
        # the kernel escapes blanks and backslashes in names, and no other white space
        fields = re.split(r"[ \t]+", line.strip(" \t"))
        if fields[0] in ("", "Filename"):
            continue
        if len(fields) != 5 or not all(re.fullmatch(r"-?[0-9]+", field) for field in fields[2:]):
            raise ValueError(f"/proc/swaps line {number} is not 'name type size used priority': {line!r}")
        name = decode_octal(fields[0])
        kind = "zram" if re.match(r"/dev/zram[0-9]+\Z", name) else fields[1]
        devices.append(SwapDevice(name, kind, int(fields[2]), int(fields[3]), int(fields[4])))
    return tuple(devices)


def parse_meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in KiB."""
    found = re.finditer(r"^([A-Za-z0-9_()]+):\s+([0-9]+)", text, re.MULTILINE)
    return {match.group(1): int(match.group(2)) for match in found}


def parse_fstab(content: bytes) -> tuple[FstabSwap, ...]:
    """The lines of fstab that are swap."""
    found = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        swap = _swap_line(number, line)
        if swap is not None:
            found.append(swap)
    return tuple(found)


def comment_fstab(content: bytes) -> bytes:
    """fstab with our marker before every swap line that boot would switch on; not a byte else differs.

    Lines with ``noauto`` stay: boot leaves them off, and the admin wrote that on purpose.
    """
    lines = content.split(b"\n")
    for index, line in enumerate(lines):
        swap = _swap_line(index + 1, line)
        if swap is not None and not swap.noauto:
            lines[index] = MARKER + line
    return b"\n".join(lines)


def _swap_line(number: int, line: bytes) -> FstabSwap | None:
    # A CR before the line's end is white space here: systemd would read "swap\r" as an unknown type,
    # yet other tools are kinder to it, and off has to mean off for all of them.
    fields = [os_text(field) for field in re.split(rb"[ \t\r]+", line.strip(b" \t\r"))]
    if len(fields) < 3 or fields[0].startswith("#") or fields[2] != "swap":
        return None
    options = fields[3].split(",") if len(fields) > 3 else []
    switches = [option for option in options if option in ("auto", "noauto")]
    return FstabSwap(number, decode_octal(fields[0]), bool(switches) and switches[-1] == "noauto")


def os_text(raw: bytes) -> str:
    """Bytes of a path as Python's os functions want them."""
    return raw.decode("utf-8", "surrogateescape")


def device_of_spec(spec: str) -> str:
    """UUID=…, LABEL=… and their kin as the udev path that systemd uses; a path stays a path."""
    name, equals, value = spec.partition("=")
    directory = {"UUID": "uuid", "LABEL": "label", "PARTUUID": "partuuid", "PARTLABEL": "partlabel"}.get(name)
    if not equals or directory is None:
        return spec
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
        value = value[1:-1]
    return f"/dev/disk/by-{directory}/{_udev_encode(value)}"


def _udev_encode(value: str) -> str:
    # udev writes what is no plain character of a label as \xNN
    kept = "#+-.:=@_"
    out = []
    for char in value:
        if char.isascii() and not char.isalnum() and char not in kept:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(char)
    return "".join(out)


def swap_unit_name(device: str) -> str:
    """The unit of a device or file, as ``systemd-escape --path --suffix=swap`` prints it."""
    path = re.sub("/+", "/", device).strip("/")
    if not path:
        return "-.swap"
    out = []
    for index, byte in enumerate(path.encode("utf-8", "surrogateescape")):
        char = chr(byte)
        if char == "/":
            out.append("-")
        elif (char.isascii() and (char.isalnum() or char in ":_")) or (char == "." and index > 0):
            out.append(char)
        else:
            out.append(f"\\x{byte:02x}")
    return "".join(out) + ".swap"


def swap_unit_device(name: str) -> str:
    """The device or file that a swap unit's name speaks of: the way back from swap_unit_name."""
    stem = name.removesuffix(".swap").replace("-", "/")
    raw = re.sub(r"\\x([0-9a-fA-F]{2})", lambda match: chr(int(match.group(1), 16)), stem)
    # every escaped byte became one character below 256: put the bytes of a UTF-8 character together again
    try:
        return "/" + os_text(raw.encode("latin-1"))
    except UnicodeEncodeError:
        return "/" + raw


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """systemd's INI dialect: sections of ``key=value``; the last value of a key wins."""
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] | None = None
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1].strip(), {})
        elif current is not None and "=" in line:
            key, _equals, value = line.partition("=")
            current[key.strip()] = value.strip()
    return sections


def zram_swaps(configs: Iterable[str], mem_total_kib: int) -> tuple[str, ...]:
    """The devices (``zram0``) that zram-generator would swap to, from its files in the order they are read."""
    merged: dict[str, dict[str, str]] = {}
    for text in configs:
        for section, keys in parse_ini(text).items():
            if _ZRAM_SECTION.match(section):
                merged.setdefault(section, {}).update(keys)
    wanted = [name for name, keys in merged.items() if _is_swap(keys) and _fits(keys, mem_total_kib)]
    return tuple(sorted(wanted, key=lambda name: int(name[4:])))


def _is_swap(keys: Mapping[str, str]) -> bool:
    if "fs-type" in keys:
        return keys["fs-type"] == "swap"
    return "mount-point" not in keys


def _fits(keys: Mapping[str, str], mem_total_kib: int) -> bool:
    """False where the generator makes no device: more memory than the limit, or a size of nothing.

    Other sizes are formulas; they are taken for more than nothing.
    """
    limit = keys.get("host-memory-limit", keys.get("memory-limit", "none"))
    if limit.isdigit() and mem_total_kib // 1024 > int(limit):
        return False
    return keys.get("zram-size", "") not in ("0", "0.0")


def order_fragments(main: str | None, fragments: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Texts in zram-generator's order: the main file, then fragments by file name."""
    texts = [] if main is None else [main]
    texts += [text for _name, text in sorted(fragments)]
    return tuple(texts)


def cmdline_switch(cmdline: str, key: str) -> bool | None:
    """A boolean of the kernel command line: None when absent; the last one counts, bare means true."""
    value: bool | None = None
    for word in cmdline.split():
        name, equals, text = word.partition("=")
        if name.replace("-", "_") == key.replace("-", "_"):
            value = not equals or text.lower() in ("1", "y", "yes", "t", "true", "on")
    return value
