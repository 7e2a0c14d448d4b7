# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What `containerd config dump` would say, as far as this collection is concerned, where there is no containerd to ask.

For check mode on a node that has no containerd yet. It knows the defaults and the merge rules of the CRI plugin's
table only; where containerd is there, containerd is asked.
"""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import FileSet
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import (
    CRI_1,
    CRI_2,
    CRI_IMAGES,
    CRI_RUNTIME,
    DRIVER_KEY,
    RUNC_2,
    Version,
)

_IMAGE_KEYS = ("sandbox_image", "registry", "image_decryption", "max_concurrent_downloads")


def assume(files: FileSet, version: Version) -> dict[str, Any]:
    plugins = _defaults(version)
    disabled: list[Any] = []
    for file in files.files:
        disabled += [entry for entry in file.tree.get("disabled_plugins") or [] if entry not in disabled]
        own = file.tree.get("plugins")
        for name, table in _renamed(own if isinstance(own, dict) else {}, file.version, version).items():
            if version.merges_imports:
                _merge(plugins.setdefault(name, {}), table)
            else:
                plugins[name] = _over(_defaults(version).get(name, {}), table)
    return {"disabled_plugins": disabled, "plugins": plugins}


def _defaults(version: Version) -> dict[str, Any]:
    runtimes = {"runc": {"runtime_type": RUNC_2, "options": {DRIVER_KEY: False}}}
    cni: dict[str, Any] = {"bin_dir": "/opt/cni/bin", "conf_dir": "/etc/cni/net.d"}
    containerd = {"default_runtime_name": "runc", "runtimes": runtimes}
    if version.major < 2:
        return {CRI_2: {"containerd": containerd, "cni": cni}}
    if version >= Version(2, 1):
        cni = {"bin_dir": "", "bin_dirs": ["/opt/cni/bin"], "conf_dir": "/etc/cni/net.d"}
    return {CRI_RUNTIME: {"containerd": containerd, "cni": cni}, CRI_IMAGES: {"pinned_images": {}}}


def _renamed(plugins: dict[str, Any], written: int, version: Version) -> dict[str, Any]:
    """The CRI tables of one file, named as the dump names them."""
    if version.major < 2:
        table = plugins.get(CRI_1 if written == 1 else CRI_2)
        return {CRI_2: table} if isinstance(table, dict) else {}
    found = {name: plugins[name] for name in (CRI_RUNTIME, CRI_IMAGES) if isinstance(plugins.get(name), dict)}
    old = plugins.get(CRI_1 if written == 1 else CRI_2)
    if written >= 3 or not isinstance(old, dict):
        return found
    runtime = {name: value for name, value in copy.deepcopy(old).items() if name not in _IMAGE_KEYS}
    cni = runtime.get("cni")
    if isinstance(cni, dict) and "bin_dir" in cni and version >= Version(2, 1):
        cni["bin_dirs"] = [cni.pop("bin_dir")]
    images = {"pinned_images": {"sandbox": old["sandbox_image"]}} if "sandbox_image" in old else {}
    return {CRI_RUNTIME: runtime, CRI_IMAGES: images, **found}


def _merge(into: dict[str, Any], table: dict[str, Any]) -> None:
    for name, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


def _over(defaults: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """containerd 1.x: keys of a file over the defaults, but each runtime of a file as a whole."""
    result = copy.deepcopy(defaults)
    _merge(result, table)
    containerd = table.get("containerd")
    runtimes = containerd.get("runtimes") if isinstance(containerd, dict) else None
    for name, runtime in (runtimes if isinstance(runtimes, dict) else {}).items():
        result["containerd"]["runtimes"][name] = copy.deepcopy(runtime)
    return result
