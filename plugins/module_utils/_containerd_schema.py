# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which table and key of containerd's config means what, in each of its versions. Only names; no decisions, no I/O.

Config version 1 (no `version` key) names the CRI plugin `cri`, version 2 `io.containerd.grpc.v1.cri`; versions 3
(containerd 2.0) and 4 (2.3) split it into a runtime and an image plugin. `containerd config dump` always speaks the
newest version that it knows: 2 for containerd 1.x, 3 or 4 for 2.x. Settings here are named as the dump names them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Path
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import Value

CRI_1 = "cri"
CRI_2 = "io.containerd.grpc.v1.cri"
CRI_RUNTIME = "io.containerd.cri.v1.runtime"
CRI_IMAGES = "io.containerd.cri.v1.images"
CRI_PLUGINS = (CRI_1, CRI_2, CRI_RUNTIME, CRI_IMAGES)

RUNC_2 = "io.containerd.runc.v2"
RUNC_TYPES = (RUNC_2, "io.containerd.runc.v1")
LINUX_TYPE = "io.containerd.runtime.v1.linux"  # its cgroup driver is the CRI plugin's own `systemd_cgroup`

DRIVER_KEY = "SystemdCgroup"
LEGACY_DRIVER_KEY = "systemd_cgroup"
SAME_AS_EMPTY = {"sandbox_mode": "podsandbox", "sandboxer": "podsandbox"}

_VERSION = re.compile(r"(?:^|\s)v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def config_version(self) -> int:
        """The newest config version that this containerd reads."""
        if self.major < 2:
            return 2
        return 3 if (self.major, self.minor) < (2, 3) else 4

    @property
    def merges_imports(self) -> bool:
        """Whether an imported file adds to the CRI plugin's table, and doesn't take its place."""
        return self.major >= 2


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the effective config and the value it should have."""

    path: Path  # as the dump names it
    value: Value


def parse_version(text: str) -> Version | None:
    """The version in the output of `containerd --version`, or in a plain version number."""
    match = _VERSION.search(text.strip())
    return Version(int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def file_version(tree: dict[str, Any]) -> int:
    """The config version of one file; a file that names none is of version 1."""
    version = tree.get("version", 0)
    return version if isinstance(version, int) and version > 0 else 1


def cri_of_dump(version: Version) -> str:
    return CRI_RUNTIME if version.major >= 2 else CRI_2


def sandbox_image_path(version: Version) -> Path:
    if version.major >= 2:
        return ("plugins", CRI_IMAGES, "pinned_images", "sandbox")
    return ("plugins", CRI_2, "sandbox_image")


def in_file_form(setting: Setting, version: int) -> Setting:
    """The setting as a file of that config version writes it."""
    plugin, tail = setting.path[1], setting.path[2:]
    if version >= 3 or plugin not in (CRI_2, CRI_RUNTIME, CRI_IMAGES):
        return setting
    value = setting.value
    if tail == ("pinned_images", "sandbox"):
        tail = ("sandbox_image",)
    if tail == ("cni", "bin_dirs") and isinstance(value, list):
        tail, value = ("cni", "bin_dir"), value[0]
    return Setting(("plugins", CRI_1 if version == 1 else CRI_2, *tail), value)


def is_cri(plugin: Any) -> bool:
    """Whether an entry of `disabled_plugins` turns the CRI plugin off."""
    return plugin in CRI_PLUGINS
