# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which former states of a node keep its kubelet from starting. Pure; paths are as on the node."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
_UNIT_PLACE = re.compile(r"/(?:etc|run|usr/lib|usr/local/lib|lib)/systemd/system/([^/]+?)(?:\.d/[^/]+)?$")
_SWAP_FILES = re.compile(
    r"/etc/(?:systemd/zram-generator\.conf(?:\.d/.*)?|default/(?:zramswap|zram-config)|dphys-swapfile|zram.*)$"
)
_KUBELET_FILES = ("/etc/default/kubelet", "/etc/sysconfig/kubelet", "/etc/kubernetes/kubelet.conf")


def is_swap_unit(name: str) -> bool:
    """A unit that brings swap, by its name: dev-vda3.swap, swap.target, systemd-zram-setup@zram0.service ..."""
    return name.endswith(".swap") or "swap" in name.lower() or "zram" in name.lower()


def unit_of(path: str) -> str:
    """The unit that a file configures, or ""."""
    place = _UNIT_PLACE.match(path)
    if place:
        return place.group(1)
    if path.startswith("/etc/containerd/"):
        return "containerd.service"
    if path in _KUBELET_FILES or path.startswith("/var/lib/kubelet/"):
        return "kubelet.service"
    return ""


def is_systemd_file(path: str) -> bool:
    """systemd has to read its units again after this file changed; fstab and zram settings become units."""
    return bool(_UNIT_PLACE.match(path)) or path == "/etc/fstab" or bool(_SWAP_FILES.match(path))


def swap_lines(fstab: bytes) -> set[tuple[bytes, ...]]:
    """The lines of an fstab that turn swap on at boot."""
    fields = [tuple(line.split()) for line in fstab.splitlines()]
    return {
        line
        for line in fields
        if len(line) >= 3
        and not line[0].startswith(b"#")
        and line[2] == b"swap"
        and b"noauto" not in b"".join(line[3:4]).split(b",")
    }


def file_hazard(
    path: str, before: bytes | None, before_target: str, now: bytes | None, essential: Collection[str]
) -> str:
    """Why putting `before` (None: absent; or a link to `before_target`) at `path` is dangerous, or ""."""
    if path == "/etc/fstab" and swap_lines(before or b"") - swap_lines(now or b""):
        return "swap would be on again after a reboot, which can keep the kubelet from starting (failSwapOn)"
    unit = unit_of(path)
    if _SWAP_FILES.match(path) or (unit and is_swap_unit(unit)):
        return "swap could come back, which can keep the kubelet from starting (failSwapOn)"
    masks = before_target == "/dev/null" or (before == b"" and not before_target)
    if unit in essential and masks and posixpath.basename(path) == unit:
        return f"{unit} would be masked again, and without it the kubelet can't run"
    return ""


def containerd_dump_problem(dump: str) -> str:
    """Why a containerd with this effective configuration serves no kubelet, or ""."""
    listed = re.search(r"^\s*disabled_plugins\s*=\s*\[(.*?)\]", dump, re.MULTILINE | re.DOTALL)
    names = re.findall(r"""["']([^"']+)["']""", listed.group(1)) if listed else []
    # "cri" disables it before 2.0, a full plugin id in every version
    cri = [
        name for name in names if name == "cri" or re.fullmatch(r"io\.containerd\.(grpc\.v1\.cri|cri\.v1\..+)", name)
    ]
    return f"containerd would run without its CRI plugin (disabled_plugins has {cri[0]})" if cri else ""


def imports(config: bytes, path: str) -> bool:
    """A containerd configuration names `path` outside of its comments, so it can't do without that file."""
    return any(path.encode() in line.split(b"#", 1)[0] for line in config.splitlines())
