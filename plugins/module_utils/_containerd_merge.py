# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Decide which file gets which edit, so that the wished settings become effective and nothing else does.

containerd 1.x: an imported file that has a CRI table replaces the whole table of the files before it, so settings go,
in place, into the file whose table counts. There a runtime that the file doesn't mention is the built-in one, and a
table for it replaces all of that: it needs its `runtime_type` too.

containerd 2.x: tables are merged key by key and the later file wins, so settings go into a drop-in that is imported
last; a file that is read after it and disagrees is edited in place. `disabled_plugins` is joined over all files, never
replaced, so the CRI plugin is taken out of it wherever it stands. Until 2.2 the versions of all files must be told
apart with care: the last one counts for all, and of version 2 under a 3 the CRI tables are not read at all.

Pure: files in, contents out.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import (
    ConfigFile,
    FileSet,
    Overlay,
    Source,
    load,
    read_config,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import (
    CRI_1,
    CRI_2,
    Setting,
    Version,
    file_version,
    in_file_form,
    is_cri,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Document
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import (
    EditError,
    append_item,
    canonical,
    remove_items,
    set_value,
    value_at,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_text

Edits = dict[str, bytes]

_DROP_IN = """\
# Written by the Ansible collection colocation.kubernetes (module containerd_config).
# containerd reads this file last, so what stands here wins over the main config file.
version = {version}
"""


def enable_cri(files: FileSet) -> Edits:
    """Take the CRI plugin out of every `disabled_plugins`."""
    edits = {}
    for file in files.files:
        if file.document is not None:
            document = remove_items(file.document, ("disabled_plugins",), is_cri)
            if document is not file.document:
                edits[file.path] = document.encode()
    return edits


def edit_in_place(files: FileSet, settings: Iterable[Setting], effective: Mapping[str, Any]) -> Edits:
    """For containerd 1.x: the settings written into the file whose CRI table counts."""
    wanted = list(settings)
    if not wanted:
        return {}
    versions = [file.version for file in files.files if isinstance(file.tree.get("version"), int)]
    version = versions[-1] if versions else 1
    cri = CRI_1 if version == 1 else CRI_2
    host = next((file for file in reversed(files.files) if value_at(file.tree, ("plugins", cri)) is not None), None)
    path, document = (host.path, host.document) if host else (files.main, _main_document(files, 2))
    if document is None:
        raise EditError(f"{path} can't be read")
    if not files.files:
        version = 2
    for setting in wanted:
        document = _set_with_type(document, in_file_form(setting, version), setting, effective)
    return {path: document.encode()}


def edit_drop_in(files: FileSet, settings: Iterable[Setting], version: Version, path: str, source: Source) -> Edits:
    """For containerd 2.x: the settings written into the drop-in, which the main file imports last."""
    wanted = list(settings)
    if not wanted:
        return {}
    content = source.read(path)
    new = _DROP_IN.format(version=_drop_in_version(files, version))
    document = read_text(new) if content is None else read_config(content)
    for setting in wanted:
        document = _set_in_drop_in(document, setting)
    edits = {path: document.encode()}
    if content is not None and edits[path] == content:
        edits = {}
    edits.update(_import(files, path, version, source, edits))
    edits.update(_overrule(load(files.main, Overlay(source, edits)), path, wanted))
    return edits


def _drop_in_version(files: FileSet, version: Version) -> int:
    """The newest version; before containerd 2.3 that which counts without the drop-in, so that it still does."""
    versions = [file.version for file in files.files if file.version > 1]
    if version >= Version(2, 3) or not versions or files.files[-1].version == 1:
        return version.config_version
    return versions[-1]


def _set_with_type(document: Document, setting: Setting, named: Setting, effective: Mapping[str, Any]) -> Document:
    if setting.path[-2:-1] == ("options",):
        table, table_in_dump = setting.path[:-2], named.path[:-2]
        if value_at(document.tree, table) is None:
            kind = value_at(effective, (*table_in_dump, "runtime_type"))
            document = set_value(document, (*table, "runtime_type"), str(kind))
    return set_value(document, setting.path, setting.value)


def _set_in_drop_in(document: Document, setting: Setting) -> Document:
    written = in_file_form(setting, file_version(document.tree))
    return set_value(document, written.path, written.value)


def _main_document(files: FileSet, version: int) -> Document | None:
    main = files.find(files.main)
    return read_text(f"version = {version}\n") if main is None else main.document


def _import(files: FileSet, path: str, version: Version, source: Source, edits: Edits) -> Edits:
    """Have the main file import the drop-in, if it is not read already."""
    if load(files.main, Overlay(source, edits)).find(path) is not None:
        return {}
    document = _main_document(files, version.config_version)
    if document is None:
        raise EditError(f"{files.main} can't be read")
    return {files.main: append_item(document, ("imports",), _import_text(files, path, source)).encode()}


def _import_text(files: FileSet, path: str, source: Source) -> str:
    """The usual pattern for the whole directory, unless that would wake files that containerd doesn't read now."""
    directory = posixpath.dirname(path)
    loaded = {file.path for file in files.files}
    asleep = [name for name in source.names(directory) if name.endswith(".toml")]
    wakes = any(posixpath.join(directory, name) not in {*loaded, path} for name in asleep)
    fits = path.endswith(".toml") and not wakes
    return posixpath.join(directory, "*.toml") if fits else path


def _overrule(files: FileSet, path: str, settings: list[Setting]) -> Edits:
    """Edit what is read after the drop-in and says otherwise."""
    order = [file.path for file in files.files]
    later = files.files[order.index(path) + 1 :] if path in order else ()
    edits = {}
    for file in later:
        document = _agreeing(file, settings)
        if document is not None and document is not file.document:
            edits[file.path] = document.encode()
    return edits


def _agreeing(file: ConfigFile, settings: list[Setting]) -> Document | None:
    document = file.document
    for setting in settings:
        written = in_file_form(setting, file.version)
        found = value_at(file.tree, written.path)
        if document is not None and found is not None and canonical(found) != canonical(written.value):
            document = set_value(document, written.path, written.value)
    return document
