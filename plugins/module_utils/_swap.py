# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Read all of a node's swap: the devices that are on, and whatever would turn one on at the next boot.

The next boot is what files say, not what systemd loaded at the last one. Only what pulls a swap unit in
by a line (`Wants=x.swap` in another unit) instead of a link is asked of systemd.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import (
    SwapDevice,
    SwapFacts,
    SwapSource,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_gpt import gpt_swap_partitions
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_parse import (
    FstabSwap,
    cmdline_switch,
    order_fragments,
    parse_fstab,
    parse_ini,
    parse_meminfo,
    parse_proc_swaps,
    swap_unit_device,
    swap_unit_name,
    zram_swaps,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_units import (
    UnitFile,
    UnitTree,
    below,
    generator_works,
    is_masked,
    read_text,
    read_unit_tree,
)

__all__ = ["SwapDevice", "SwapFacts", "SwapSource", "read_swap"]

Run = Callable[[list[str]], tuple[int, str, str]]

TARGET = "swap.target"
SERVICES = {
    "zramswap.service": "compressed swap of the package zram-tools",
    "zram-config.service": "compressed swap of Ubuntu's package zram-config",
    "zram-swap.service": "compressed swap of zram-swap",
    "zramd.service": "compressed swap of zramd",
    "dphys-swapfile.service": "the swap file of the package dphys-swapfile",
    "swapspace.service": "the daemon that makes swap files as needed",
    "systemd-swap.service": "swap of the package systemd-swap",
}
_ZRAM_TOPS = ("run", "etc", "usr/local/lib", "usr/lib")  # highest precedence first


def read_swap(root: str, run: Run) -> SwapFacts:
    """The swap of the node whose files lie under `root`; `run` calls systemctl."""
    memory = parse_meminfo(read_text(below(root, "/proc/meminfo")) or "")
    cmdline = read_text(below(root, "/proc/cmdline")) or ""
    tree = _with_lines_of_units(read_unit_tree(root, frozenset({TARGET, *SERVICES}), ".swap"), run)
    fstab = parse_fstab(_read_bytes(below(root, "/etc/fstab")))
    at_boot = tuple(swap for swap in fstab if not swap.noauto)
    zram = tuple(_zram_sources(root, tree, cmdline, memory.get("MemTotal", 0)))
    sources = [
        *_fstab_sources(at_boot),
        *zram,
        *_gpt_sources(root, tree, cmdline, keeps_a_line=len(at_boot) < len(fstab)),
        *_unit_sources(tree, bool(at_boot), {source.detail for source in zram}),
        *_service_sources(tree),
    ]
    active = parse_proc_swaps(read_text(below(root, "/proc/swaps")) or "")
    return SwapFacts(active, tuple(sources), memory.get("MemAvailable", 0))


def _fstab_sources(at_boot: tuple[FstabSwap, ...]) -> Iterator[SwapSource]:
    for swap in at_boot:
        yield SwapSource("fstab", f"/etc/fstab:{swap.line}", swap.spec, swap_unit_name(swap.device))


def _zram_sources(root: str, tree: UnitTree, cmdline: str, mem_total_kib: int) -> Iterator[SwapSource]:
    """What zram-generator is configured to make, whether or not it ran since."""
    switch = cmdline_switch(cmdline, "systemd.zram")
    if switch is False or tree.masked(TARGET) or not generator_works(root, "zram-generator"):
        return
    where, texts = _zram_configs(root)
    names = zram_swaps(texts, mem_total_kib)
    if switch and "zram0" not in names:
        names = ("zram0", *names)
    for name in names:
        unit = f"dev-{name}.swap"
        if not tree.masked(unit):
            yield SwapSource("zram-generator", where or "/proc/cmdline", f"/dev/{name}", unit)


def _zram_configs(root: str) -> tuple[str, tuple[str, ...]]:
    """Where the configuration is, and its texts in the generator's order."""
    main_path, main = "", None
    fragments: dict[str, tuple[str, str | None]] = {}
    for top in _ZRAM_TOPS:
        path = f"/{top}/systemd/zram-generator.conf"
        text = read_text(below(root, path))
        if main is None and text is not None:
            main_path, main = path, text
        directory = below(root, f"{path}.d")
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
            if name.endswith(".conf") and not name.startswith(".") and name not in fragments:
                masked = is_masked(os.path.join(directory, name))
                fragments[name] = (f"{path}.d/{name}", None if masked else read_text(os.path.join(directory, name)))
    used = [(name, text) for name, (_path, text) in fragments.items() if text is not None]
    paths = [main_path] if main_path else []
    paths += [path for path, text in fragments.values() if text is not None]
    return ", ".join(paths), order_fragments(main, used)


def _gpt_sources(root: str, tree: UnitTree, cmdline: str, *, keeps_a_line: bool) -> Iterator[SwapSource]:
    """Partitions that boot would find by their type.

    Any swap line that stays in fstab keeps the generator away; one that is to be commented does not.
    What the generator made already is taken as it is, where the partition table can't be read.
    """
    if tree.masked(TARGET):
        return
    switches = (cmdline_switch(cmdline, key) for key in ("systemd.gpt_auto", "systemd.swap"))
    found: tuple[str, ...] = ()
    if False not in switches and not keeps_a_line and generator_works(root, "systemd-gpt-auto-generator"):
        found = gpt_swap_partitions(root)
    for device in found:
        yield SwapSource("gpt-auto", "systemd-gpt-auto-generator", device, TARGET)
    if found:
        return
    for unit in _pulled_swaps(tree):
        if unit.generated and _maker(unit) == "gpt-auto":
            yield SwapSource("gpt-auto", unit.path, _what(unit), TARGET)


def _unit_sources(tree: UnitTree, fstab_has_swap: bool, zram_units: set[str]) -> Iterator[SwapSource]:
    for unit in _pulled_swaps(tree):
        if not unit.generated:
            yield SwapSource("unit", unit.path, _what(unit), unit.name)
            continue
        maker = _maker(unit)
        if maker == "fstab" and not fstab_has_swap:
            yield SwapSource("stale", unit.path, _what(unit), unit.name)
        elif maker == "unknown" or (maker == "zram" and unit.name not in zram_units):
            yield SwapSource("generated", unit.path, _what(unit), unit.name)


def _service_sources(tree: UnitTree) -> Iterator[SwapSource]:
    for name, meaning in SERVICES.items():
        if name in tree.files and tree.pullers(name):
            yield SwapSource("service", tree.files[name].path, "", meaning)


def _pulled_swaps(tree: UnitTree) -> Iterator[UnitFile]:
    for name in sorted(tree.files):
        if name.endswith(".swap") and tree.pullers(name):
            yield tree.files[name]


def _maker(unit: UnitFile) -> str:
    """Which generator wrote a unit."""
    if "systemd-fstab-generator" in unit.text or "SourcePath=/etc/fstab" in unit.text:
        return "fstab"
    if "gpt-auto-generator" in unit.text:
        return "gpt-auto"
    return "zram" if "zram-generator" in unit.text else "unknown"


def _what(unit: UnitFile) -> str:
    return parse_ini(unit.text).get("Swap", {}).get("What", "") or swap_unit_device(unit.name)


def _with_lines_of_units(tree: UnitTree, run: Run) -> UnitTree:
    """Add what systemd knows to pull a swap unit in; a link is not the only way."""
    code, out, _err = run(["systemctl", "show", "--property=Id,WantedBy,RequiredBy,UpheldBy", "--", "*.swap"])
    pulled = {name: set(pullers) for name, pullers in tree.pulled_by.items()}
    for block in out.split("\n\n") if code == 0 else []:
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        asked = {name for key in ("WantedBy", "RequiredBy", "UpheldBy") for name in values.get(key, "").split()}
        if values.get("Id", "") in tree.files:
            pulled.setdefault(values["Id"], set()).update(asked)
    return UnitTree(tree.files, {name: frozenset(pullers) for name, pullers in pulled.items()})


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b""
