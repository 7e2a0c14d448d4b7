# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From what stands and what is asked for to the files to write, each step checked with containerd.

The law: what is written makes exactly the wished keys effective. The planned files are shown to containerd first; if
its effective config would then differ in any other key, or not have a wished one, nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_ask import (
    Oracle,
    Unreadable,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import (
    FileSet,
    Overlay,
    Source,
    load,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_mend import (
    Broken,
    ConfigError,
    explain,
    mend,
    standing,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_merge import (
    Edits,
    edit_drop_in,
    edit_in_place,
    enable_cri,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import (
    Setting,
    cri_of_dump,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_view import (
    Change,
    Request,
    compare,
    cri_enabled,
    flat,
    unexpected,
    unmet,
    wishes,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import (
    EditError,
    canonical,
    dotted,
    value_at,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write, and what it will do."""

    edits: Mapping[str, bytes]  # in the order of writing
    originals: Mapping[str, bytes | None]
    config_version: int  # of the main file, as it will stand
    changes: tuple[Change, ...]  # of the effective config
    before: dict[str, Any] | None  # the effective config; None when containerd can't read it
    after: dict[str, Any]
    broken: tuple[Broken, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def effective_changed(self) -> bool:
        return bool(self.changes) or bool(self.broken)


def decide(oracle: Oracle, source: Source, main: str, drop_in: str, request: Request, repair: bool = False) -> Decision:
    """Plan and check; writes nothing but containerd's temporary copies."""
    disk, files, broken = source, load(main, source), tuple[Broken, ...]()
    before: dict[str, Any] | None = None
    try:
        baseline = before = standing(oracle, files)
    except Unreadable as problem:
        if not repair:
            raise ConfigError(explain(files, problem)) from None
        broken = mend(oracle, source, files, problem)
        source = Overlay(source, {one.path: one.salvage.data for one in broken})
        files = load(main, source)
        baseline = oracle.planned(files)
    try:
        edits, settings = _plan(oracle, source, files, drop_in, request, baseline)
    except EditError as error:
        raise ConfigError(f"{main}: this config can't be edited safely: {error}. Make the change by hand.") from error
    planned = load(main, Overlay(source, edits))
    after = oracle.planned(planned) if edits else baseline
    changes = compare(baseline, after)
    _check(changes, baseline, after, settings)
    edits = {**_first(edits, drop_in), **{one.path: one.salvage.data for one in broken}, **edits}
    file = planned.find(main)
    return Decision(
        edits=edits,
        originals={path: disk.read(path) for path in edits},
        config_version=file.version if file else oracle.version.config_version,
        changes=_asked(changes, settings, baseline, after),
        before=before,
        after=after,
        broken=broken,
        warnings=_warnings(after, settings, oracle),
    )


def fingerprint(tree: dict[str, Any]) -> str:
    """A short text that stays the same as long as the effective config does."""
    leaves = {dotted(path): value for path, value in flat(tree).items()}
    return hashlib.sha256(canonical(leaves).encode("utf-8", "surrogateescape")).hexdigest()


def _plan(
    oracle: Oracle, source: Source, files: FileSet, drop_in: str, request: Request, baseline: dict[str, Any]
) -> tuple[Edits, tuple[Setting, ...]]:
    edits: Edits = {}
    shown = baseline
    if not cri_enabled(baseline):
        edits = enable_cri(files)
        _readable(files)
        source = Overlay(source, edits)
        files = load(files.main, source)
        shown = oracle.planned(files)
    settings = wishes(shown, request, oracle.version)
    missing = unmet(shown, settings)
    if not missing:
        return edits, settings
    _readable(files)
    if oracle.version.merges_imports:
        more = edit_drop_in(files, missing, oracle.version, drop_in, source)
    else:
        more = edit_in_place(files, missing, shown)
    return {**_first(more, drop_in), **edits, **more}, settings


def _first(edits: Edits, path: str) -> Edits:
    """The drop-in before the file that imports it, so that nobody imports a file that isn't there."""
    return {path: edits[path]} if path in edits else {}


def _check(
    changes: tuple[Change, ...], before: dict[str, Any], after: dict[str, Any], settings: tuple[Setting, ...]
) -> None:
    surprises = unexpected(before, changes, settings)
    if surprises:
        listed = ", ".join(dotted(change.path) for change in surprises[:10])
        raise ConfigError(
            f"Nothing was written: the edit would also change {len(surprises)} other key(s) of the effective config: "
            f"{listed}. Make the change by hand and report the config (without its secrets) as a bug."
        )
    lost = unmet(after, settings)
    if lost or not cri_enabled(after):
        listed = ", ".join(dotted(setting.path) for setting in lost) or "disabled_plugins"
        raise ConfigError(
            f"Nothing was written: containerd would still not have the wished {listed}. Some file must set it in a way "
            "that can't be overruled; look for it with `containerd config dump` and in the imported files."
        )


def _readable(files: FileSet) -> None:
    for file in files.files:
        if file.problem is not None:
            raise ConfigError(
                f"{file.path}, {file.problem}. containerd reads this, but it can't be edited without risk. "
                "Mend that line and run again."
            )


def _asked(
    changes: tuple[Change, ...], settings: tuple[Setting, ...], before: dict[str, Any], after: dict[str, Any]
) -> tuple[Change, ...]:
    """The values as containerd prints them; not the many keys that only appear because the CRI plugin is on again."""
    wished = {("disabled_plugins",), *(setting.path for setting in settings)}
    paths = [change.path for change in changes if change.path in wished]
    return tuple(Change(path, value_at(before, path), value_at(after, path)) for path in paths)


def _warnings(after: dict[str, Any], settings: tuple[Setting, ...], oracle: Oracle) -> tuple[str, ...]:
    found = []
    containerd = value_at(after, ("plugins", cri_of_dump(oracle.version), "containerd")) or {}
    runtimes = containerd.get("runtimes") or {}
    default = containerd.get("default_runtime_name")
    if not any(setting.path[-2:-1] == ("options",) for setting in settings):
        found.append("No runtime of a runc type is configured, so no runtime's cgroup driver was set.")
    for name, runtime in runtimes.items():
        if isinstance(runtime, dict) and not runtime.get("runtime_type"):
            found.append(
                f"The runtime {name!r} has no runtime_type, so containerd can't start containers with it, and its "
                "cgroup driver was left alone. Add runtime_type, or take the runtime out."
            )
    if default and default not in runtimes and not value_at(containerd, ("default_runtime", "runtime_type")):
        found.append(
            f"default_runtime_name is {default!r}, but no such runtime is configured: containerd's CRI plugin will not "
            f"start. Add the runtime, or name one of: {', '.join(runtimes) or 'none is there'}."
        )
    return tuple(found)
