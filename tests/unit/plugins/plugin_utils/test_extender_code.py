# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The extender as one file: small, always the same bytes, and all that it needs is in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _extender_code
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import BuildFailed
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._extender_code import (
    extender_code,
    sources,
    yaml_package,
)

AGENTS = Path(_extender_code.__file__).parents[2] / "files" / "agents"


def test_it_is_small_and_whole(tmp_path: Path) -> None:
    code = extender_code(AGENTS, tmp_path)
    assert Path(code.path).read_bytes() == code.content
    assert len(code.content) < 1 << 18
    names = set(zipfile.ZipFile(code.path).namelist())
    assert {
        "__main__.py",
        "yaml/__init__.py",
        "colocation/common/kube_api.py",
        "colocation/scheduler/agent.py",
    } <= names
    assert not [name for name in names if "device_plugin" in name or not name.endswith(".py")]


def test_it_runs_where_there_is_nothing_but_python(tmp_path: Path) -> None:
    code = extender_code(AGENTS, tmp_path)
    config = tmp_path / "c.yaml"
    config.write_text("profiles: {a: {}}\n")
    check = "import colocation.scheduler.agent, yaml; print(yaml.__with_libyaml__, yaml.__file__)"
    command = [sys.executable, "-ISB", "-c", f"import sys; sys.path.insert(0, {code.path!r}); {check}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == f"False {code.path}/yaml/__init__.py\n"
    checked = [sys.executable, "-ISB", code.path, "--check-config", "--config", str(config)]
    assert subprocess.run(checked, capture_output=True, text=True, check=True).stdout == f"{config}: good\n"


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first = extender_code(AGENTS, tmp_path / "a")
    copy = tmp_path / "copy"
    for file in sorted((AGENTS / "colocation").rglob("*.py"), reverse=True):
        there = copy / file.relative_to(AGENTS)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, there)
        there.chmod(0o755)
        os.utime(there, (1, 1))
    second = extender_code(copy, tmp_path / "b")
    assert second.content == first.content
    assert Path(second.path).name == Path(first.path).name
    (copy / "colocation" / "scheduler" / "wire.py").write_text("changed = True\n")
    assert extender_code(copy, tmp_path / "b").content != first.content


def test_a_kept_file_that_was_tampered_with_is_written_anew(tmp_path: Path) -> None:
    code = extender_code(AGENTS, tmp_path)
    Path(code.path).write_bytes(b"other")
    assert Path(extender_code(AGENTS, tmp_path).path).read_bytes() == code.content
    assert [file.name for file in tmp_path.iterdir()] == [Path(code.path).name]


def test_old_files_go_and_the_one_in_use_stays(tmp_path: Path) -> None:
    for number in range(5):
        old = tmp_path / f"extender-{number}.pyz"
        old.write_bytes(b"old")
        os.utime(old, (number, number))
    code = extender_code(AGENTS, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"extender-3.pyz", "extender-4.pyz", Path(code.path).name}


def test_what_went_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BuildFailed, match="can't be packed on the controller"):
        extender_code(AGENTS, blocked / "cache")
    monkeypatch.setattr(_extender_code, "MOST", 1000)
    with pytest.raises(BuildFailed, match="no more than 1000 fit"):
        extender_code(AGENTS, tmp_path)
    monkeypatch.setattr(_extender_code.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BuildFailed, match="PyYAML has no sources"):
        yaml_package()


def test_compiled_parts_stay_out() -> None:
    assert not [name for name in sources(AGENTS, yaml_package()) if name.endswith((".so", ".pyc", "cyaml.py"))]
