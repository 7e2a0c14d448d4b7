# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""On the controller: the scheduler's extender as one file that any Python 3.10 or later runs, a zipapp.

It is made of our sources and of the PyYAML that Ansible itself needs, so there is nothing to fetch. The same sources
give the same bytes, whenever, wherever and by whomever it is packed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import BuildFailed

PARTS = ("common", "scheduler")  # of our package
NOT_OF_YAML = ("cyaml.py",)  # wants libyaml
MOST = 900_000  # bytes; with its encoding and the rest it must fit into an object of the API, 1 MiB
KEPT = 3  # files, those that were used last
FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # that a zip can tell
MAIN = "import sys\n\nfrom colocation.scheduler.__main__ import main\n\nsys.exit(main())\n"


@dataclass(frozen=True, slots=True)
class ExtenderCode:
    """The packed file."""

    path: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def extender_code(agents: Path, cache: Path) -> ExtenderCode:
    """Pack the extender, and keep the file in a directory of the controller."""
    try:
        content = pack(sources(agents, yaml_package()))
        if len(content) > MOST:
            raise BuildFailed(f"the extender is {len(content)} bytes, and no more than {MOST} fit into a ConfigMap")
        path = cache / f"extender-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
        _keep(path, content)
    except OSError as problem:
        raise BuildFailed(f"the extender can't be packed on the controller, in {cache}: {problem}") from problem
    return ExtenderCode(str(path), content)


def yaml_package() -> Path:
    """Where Ansible's PyYAML is."""
    spec = importlib.util.find_spec("yaml")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for place in places:
        if (place / "__init__.py").is_file():
            return place
    raise BuildFailed("the controller's PyYAML has no sources; install python3-yaml or the package PyYAML of pip there")


def sources(agents: Path, yaml: Path) -> dict[str, bytes]:
    """All that goes in, by its name inside."""
    package = agents / "colocation"
    ours = [package / "__init__.py", *(file for part in PARTS for file in (package / part).rglob("*.py"))]
    found = {f"colocation/{file.relative_to(package).as_posix()}": file.read_bytes() for file in ours}
    theirs = (file for file in yaml.glob("*.py") if file.name not in NOT_OF_YAML)
    found |= {f"yaml/{file.name}": file.read_bytes() for file in theirs}
    return found | {"__main__.py": MAIN.encode()}


def pack(files: Mapping[str, bytes]) -> bytes:
    """A zip that Python runs."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, FIRST_DAY)
            entry.create_system, entry.external_attr, entry.compress_type = 3, 0o644 << 16, zipfile.ZIP_DEFLATED
            packed.writestr(entry, files[name])
    return b"#!/usr/bin/env python3\n" + written.getvalue()


def _keep(path: Path, content: bytes) -> None:
    """Write the file at once or not at all; one that is another than it should be is written anew."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_file() and path.read_bytes() == content:
        os.utime(path)  # it is in use
        return
    handle, name = tempfile.mkstemp(prefix=".extender-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    for old in sorted(path.parent.glob("extender-*.pyz"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)
