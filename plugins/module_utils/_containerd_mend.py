# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Files that containerd can't read: which one, what is wrong with it, and what can take its place.

`_containerd_repair` makes candidates without knowing containerd; here they are shown to it, the fullest first.
"""

from __future__ import annotations

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
    resolve,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_repair import (
    Dropped,
    Salvage,
    candidates,
    position_in,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import BOM
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import (
    EditError,
    find_array,
    remove_items,
)


class ConfigError(Exception):
    """The config can't be made what was asked for; the text says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that containerd can't read, and what takes its place."""

    path: str
    data: bytes
    salvage: Salvage


def standing(oracle: Oracle, files: FileSet) -> dict[str, Any]:
    """The effective config; `Unreadable` also for a missing import, which dump of 2.x hides and the daemon does not."""
    if files.missing:
        raise _missing(files)
    return oracle.standing(files)


def explain(files: FileSet, problem: Unreadable) -> str:
    path = _culprit(files, problem)
    file = files.find(path)
    text = f"{path}: containerd can't read this config: {problem.message.rstrip('.')}."
    if file is not None and file.data.startswith(BOM):
        text += " It starts with a byte order mark (the bytes EF BB BF); take that away."
    if file is not None and file.problem is not None:
        if str(file.problem) not in problem.message:
            text += f" Our own reader stops at {file.problem}."
    elif position := position_in(problem.message):
        text += f" That is line {position[0]}, column {position[1]}."
    return text + (
        " Mend it, or run again with repair: true, which keeps the file aside, writes one with all that can be saved "
        "of it, and says what could not."
    )


def mend(oracle: Oracle, source: Source, files: FileSet, problem: Unreadable) -> tuple[Broken, ...]:
    """Replace one broken file after the other until containerd can read them all."""
    broken: dict[str, Broken] = {}
    for dummy in range(len(files.files) + 1):
        path = _culprit(files, problem)
        file = files.find(path)
        if file is None or path in broken:
            break
        mended = Overlay(source, {one.path: one.salvage.data for one in broken.values()})
        salvage = _without_missing(files, path, source) or _salvage(oracle, mended, files, path, problem)
        broken[path] = Broken(path, file.data, salvage)
        files = load(files.main, Overlay(mended, {path: salvage.data}))
        next_problem = _problem(oracle, files)
        if next_problem is None:
            return tuple(broken.values())
        problem = next_problem
    raise ConfigError(
        f"{_culprit(files, problem)}: containerd can't read this config: {problem.message.rstrip('.')}. It can't be "
        "repaired either. Nothing was written; move the file away and run again to get a minimal one."
    )


def _culprit(files: FileSet, problem: Unreadable) -> str:
    """The file that containerd can't read: the one it names, else the first that we can't read, else the main file."""
    known = [file.path for file in files.files]
    if problem.file in known:
        return problem.file
    bad = [file.path for file in files.files if file.problem is not None]
    named = [path for path in known if f"{path}:" in problem.message]
    return (named or bad or [files.main])[0]


def _missing(files: FileSet) -> Unreadable:
    importer, path = files.missing[0]
    return Unreadable(f"it imports {path}, and there is no such file", importer)


def _problem(oracle: Oracle, files: FileSet) -> Unreadable | None:
    if files.missing:
        return _missing(files)
    try:
        oracle.planned(files)
    except Unreadable as problem:
        return problem
    return None


def _without_missing(files: FileSet, path: str, source: Source) -> Salvage | None:
    """A file that imports what isn't there loses that import, and nothing else."""
    file = files.find(path)
    gone = {imported for importer, imported in files.missing if importer == path}
    if file is None or file.document is None or not gone:
        return None

    def is_lost(text: Any) -> bool:
        return isinstance(text, str) and bool(gone & set(resolve(path, text, source)))

    try:
        array = find_array(file.document, ("imports",))
        mended = remove_items(file.document, ("imports",), is_lost)
    except EditError:
        return None
    number = file.document.text.count("\n", 0, array.start) + 1
    dropped = tuple(
        Dropped(number, number, f"{text} in imports", "there is no such file") for text in array.value if is_lost(text)
    )
    return Salvage(mended.encode(), dropped)


def _salvage(oracle: Oracle, source: Source, files: FileSet, path: str, problem: Unreadable) -> Salvage:
    """The fullest candidate that containerd reads, or that leaves it complaining about another file only."""
    file = files.find(path)
    if file is None:
        raise problem
    last = None
    for candidate in candidates(file.data, oracle.version.config_version, problem.message):
        last = candidate
        mended = load(files.main, Overlay(source, {path: candidate.data}))
        left = _problem(oracle, mended)
        if left is None or (_culprit(mended, left) != path):
            return candidate
    if last is None:
        raise problem
    return last
