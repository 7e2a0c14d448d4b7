# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The effective config, as `containerd config dump` prints it: what it says now, what should be set, what differs.

Pure: takes the dump's tree, gives back settings and differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import (
    CRI_PLUGINS,
    DRIVER_KEY,
    LEGACY_DRIVER_KEY,
    LINUX_TYPE,
    RUNC_TYPES,
    SAME_AS_EMPTY,
    Setting,
    Version,
    cri_of_dump,
    is_cri,
    sandbox_image_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Path
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import canonical, value_at

NOT_COMPARED = ("imports", "version")  # how the config came together, not what it says
_ZEROS: tuple[Any, ...] = (None, "", False, 0, [], {})


class WishError(ValueError):
    """What was asked for does not fit the config; the text says why and what would."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asks for; None keeps what is there."""

    systemd_cgroup: bool
    runtimes: tuple[str, ...] | None = None  # None: every runtime of a runc type
    sandbox_image: str | None = None
    cni_bin_dir: str | None = None
    cni_conf_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One key of the effective config that differs; None stands for a key that is not there."""

    path: Path
    before: Any
    after: Any


def cri_enabled(tree: dict[str, Any]) -> bool:
    disabled = tree.get("disabled_plugins")
    return not (isinstance(disabled, list) and any(is_cri(plugin) for plugin in disabled))


def wishes(tree: dict[str, Any], request: Request, version: Version) -> tuple[Setting, ...]:
    """Every key that the request is about, with the value it should have."""
    cri = ("plugins", cri_of_dump(version))
    settings = [Setting((*table, "options", DRIVER_KEY), request.systemd_cgroup) for table in _runc(tree, request, cri)]
    legacy = _legacy_driver(tree, request, cri)
    if legacy is not None and version.major < 2:  # 2.x has no such key
        settings.append(Setting((*cri, LEGACY_DRIVER_KEY), legacy))
    if request.sandbox_image is not None:
        settings.append(Setting(sandbox_image_path(version), request.sandbox_image))
    if request.cni_bin_dir is not None:
        settings.append(_bin_dir(value_at(tree, (*cri, "cni")) or {}, (*cri, "cni"), request.cni_bin_dir, version))
    if request.cni_conf_dir is not None:
        settings.append(Setting((*cri, "cni", "conf_dir"), request.cni_conf_dir))
    return tuple(sorted(settings, key=lambda setting: setting.path))


def unmet(tree: dict[str, Any], settings: Iterable[Setting]) -> tuple[Setting, ...]:
    return tuple(setting for setting in settings if not is_met(tree, setting))


def is_met(tree: dict[str, Any], setting: Setting) -> bool:
    found = value_at(tree, setting.path)
    if setting.value is False:
        return found is None or found is False
    return canonical(found) == canonical(setting.value)


def compare(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    """All that differs between two effective configs, in order of the keys."""
    old, new = flat(before), flat(after)
    return tuple(
        Change(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if canonical(old.get(path)) != canonical(new.get(path))
    )


def unexpected(before: dict[str, Any], changes: Iterable[Change], settings: Iterable[Setting]) -> tuple[Change, ...]:
    """The changes that nobody asked for."""
    wished = {setting.path for setting in settings}
    was_enabled = cri_enabled(before)

    def asked(change: Change) -> bool:
        if change.path in wished:
            return True
        if change.path == ("disabled_plugins",):
            old, new = change.before or [], change.after or []
            return [plugin for plugin in old if not is_cri(plugin)] == new
        # A CRI plugin that was off is not in the dump: once on, it appears with all it has.
        appears = change.before is None and change.path[:1] == ("plugins",) and change.path[1] in CRI_PLUGINS
        return appears and not was_enabled

    return tuple(change for change in changes if not asked(change))


# What should be set


def _runtimes(tree: dict[str, Any], cri: Path) -> dict[str, tuple[Path, str]]:
    """Name, table and type of each runtime, the two old-fashioned tables of containerd 1.x included."""
    containerd = (*cri, "containerd")
    found = {}
    for name, runtime in (value_at(tree, (*containerd, "runtimes")) or {}).items():
        if isinstance(runtime, dict):
            found[name] = ((*containerd, "runtimes", name), str(runtime.get("runtime_type") or ""))
    for name in ("default_runtime", "untrusted_workload_runtime"):
        kind = value_at(tree, (*containerd, name, "runtime_type"))
        if kind and name not in found:
            found[name] = ((*containerd, name), str(kind))
    return found


def _runc(tree: dict[str, Any], request: Request, cri: Path) -> list[Path]:
    runtimes = _runtimes(tree, cri)
    if request.runtimes is None:
        return [table for table, kind in runtimes.values() if kind in RUNC_TYPES]
    for name in request.runtimes:
        if name not in runtimes:
            raise WishError(f"runtimes: there is no {name!r} in containerd's config; it has {', '.join(runtimes)}")
        if runtimes[name][1] not in RUNC_TYPES:
            raise WishError(
                f"runtimes: {name!r} has the type {runtimes[name][1]!r}, which takes no {DRIVER_KEY}; leave it out"
            )
    return [runtimes[name][0] for name in request.runtimes]


def _legacy_driver(tree: dict[str, Any], request: Request, cri: Path) -> bool | None:
    """What the plugin's own `systemd_cgroup` must be: it rules the oldest runtime type and breaks all others."""
    default = value_at(tree, (*cri, "containerd", "default_runtime_name"))
    kind = value_at(tree, (*cri, "containerd", "default_runtime", "runtime_type")) or value_at(
        tree, (*cri, "containerd", "runtimes", str(default), "runtime_type")
    )
    if kind == LINUX_TYPE:
        return request.systemd_cgroup
    return False if value_at(tree, (*cri, LEGACY_DRIVER_KEY)) is True else None


def _bin_dir(cni: dict[str, Any], path: Path, directory: str, version: Version) -> Setting:
    """containerd 2.1 has a list beside the single directory and refuses a config that sets both."""
    if version < Version(2, 1) or cni.get("bin_dir"):
        return Setting((*path, "bin_dir"), directory)
    return Setting((*path, "bin_dirs"), [directory])


# What differs


def flat(tree: dict[str, Any]) -> dict[Path, Any]:
    """Every key that says something, with its value."""
    leaves: dict[Path, Any] = {}

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, dict) and value:
            for name, child in value.items():
                walk(child, (*path, name))
        elif not _says_nothing(path, value):
            leaves[path] = value

    walk({name: child for name, child in tree.items() if name not in NOT_COMPARED}, ())
    return leaves


def _says_nothing(path: Path, value: Any) -> bool:
    """An empty table; and in a runtime's table a zero value, since containerd reads a missing key as zero there."""
    if value == {}:
        return True
    if "runtimes" not in path and not {"default_runtime", "untrusted_workload_runtime"} & set(path):
        return False
    return any(value is zero or value == zero for zero in _ZEROS) or SAME_AS_EMPTY.get(path[-1]) == value
