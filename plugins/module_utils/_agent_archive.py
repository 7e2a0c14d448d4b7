# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A tree of the agents as one file: the same tree always gives the same bytes, and a foreign file is not unpacked.

gzip rather than xz: the archive is a third larger (8.5 MB, not 6.3) but made in 1 s, not 10, and every Python reads it.
Bytes are the same for one zlib; another one (zlib-ng) may pack otherwise. Nothing depends on that: a release is named
by its tree, and an archive's own hash is only compared with that of the copy.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import (
    RECORD,
    Release,
    TreeError,
    is_bytecode,
    read_record,
    walk,
)

LEVEL = 6
FILE_MODE, DIRECTORY_MODE = 0o644, 0o755


def pack(root: str, release: Release, archive: str) -> None:
    """Write the tree and its record to a new file."""
    record = json.dumps(release.to_json(), indent=2, sort_keys=True).encode() + b"\n"
    names = sorted(name for name in walk(root) if name != RECORD and not is_bytecode(name))
    with open(archive, "xb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, RECORD, io.BytesIO(record), len(record))
            for name in names:
                with open(os.path.join(root, name), "rb") as file:
                    _add(tar, name, file, os.fstat(file.fileno()).st_size)
        packed.close()
        raw.flush()
        os.fsync(raw.fileno())


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, FILE_MODE
    tar.addfile(member, content)


def unpack(archive: str, root: str) -> Release:
    """Make a new tree of an archive; what its record says. TreeError where it is cut, damaged, or reaches outside."""
    os.mkdir(root, DIRECTORY_MODE)
    os.chmod(root, DIRECTORY_MODE)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                _extract(tar, member, root)
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, FileExistsError) as problem:
        raise TreeError(f"{archive} is not a whole archive: {problem}") from problem
    return read_record(root)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, root: str) -> None:
    parts = member.name.split("/")
    plain = member.isreg() and not {"", ".", ".."} & set(parts)
    content = tar.extractfile(member) if plain else None
    if content is None:
        raise TreeError(f"the archive has {member.name!r}, which is no plain file inside the tree")
    for directory in _parents(root, parts):
        if not os.path.isdir(directory):
            os.mkdir(directory)  # what the umask takes away comes back in the next line
            os.chmod(directory, DIRECTORY_MODE)
    path = os.path.join(root, *parts)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        while block := content.read(1 << 20):
            file.write(block)
        os.fchmod(file.fileno(), FILE_MODE)


def _parents(root: str, parts: list[str]) -> Iterator[str]:
    for depth in range(1, len(parts)):
        yield os.path.join(root, *parts[:depth])
