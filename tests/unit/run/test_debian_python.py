# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A newer Python beside the machine's own files: made once, marked last, at home where it lies."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.run import debian_python
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn

LIBRARY = "usr/lib/x86_64-linux-gnu"
SETTINGS = "usr/lib/python3.13/_sysconfigdata__x86_64-linux-gnu.py"
FILES = {
    f"{LIBRARY}/ld-linux-x86-64.so.2": '#!/bin/sh\n[ -z "$FAIL" ] || exit 1\necho "$@"\n',
    "usr/bin/python3.13": "the program",
    SETTINGS: "build_time_vars = {\n 'WHEEL_PKG_DIR': '/usr/share/python-wheels/',\n}\n",
    "etc/shadow": "not wanted",
}


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that answers with a tar of our own, and notes what it was asked."""
    with tarfile.open(tmp_path / "answer.tar", "w") as tar:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    program = tmp_path / "programs" / "mmdebstrap"
    program.parent.mkdir()
    note, give = f'echo "$@" >> {tmp_path}/asked', f"for last; do :; done; cp {tmp_path}/answer.tar $last"
    program.write_text(f"#!/bin/sh\n{note}\n{give}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def test_it_starts_through_its_own_loader(mmdebstrap: Path, tmp_path: Path) -> None:
    command = debian_python.make(tmp_path / "cache", tmp_path / "log")
    root = command.parents[2]
    link = tmp_path / "python"
    link.symlink_to(command)
    said = subprocess.run([link, "-c", "two words"], capture_output=True, text=True, check=True).stdout
    assert said == f"--library-path {root / LIBRARY} --argv0 {link} {command.parent}/python3.13.real -c two words\n"
    assert (command.parent / "python3.13").read_text() == command.read_text()
    assert (command.parent / "python3.13.real").read_text() == "the program"


def test_its_pip_lies_with_it_and_nothing_else_is_unpacked(mmdebstrap: Path, tmp_path: Path) -> None:
    root = debian_python.make(tmp_path / "cache", tmp_path / "log").parents[2]
    assert f"'WHEEL_PKG_DIR': '{root}/usr/share/python-wheels/'," in (root / SETTINGS).read_text()
    assert sorted(path.name for path in root.iterdir()) == [".complete", "usr"]


def test_it_is_made_once_and_a_half_made_one_anew(mmdebstrap: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    root = debian_python.make(tmp_path / "cache", tmp_path / "log").parents[2]
    debian_python.make(tmp_path / "cache", tmp_path / "log")
    assert len(asked.read_text().splitlines()) == 1
    (root / ".complete").unlink()
    (root / "left-over").touch()
    debian_python.make(tmp_path / "cache", tmp_path / "log")
    assert len(asked.read_text().splitlines()) == 2
    assert not (root / "left-over").exists()


def test_one_that_does_not_run_is_not_used(mmdebstrap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "1")
    for dummy in range(2):
        with pytest.raises(CannotGoOn, match=r"does not run.*3\.12 or later"):
            debian_python.make(tmp_path / "cache", tmp_path / "log")


def test_what_mmdebstrap_says_is_shown(mmdebstrap: Path, tmp_path: Path) -> None:
    mmdebstrap.write_text("#!/bin/sh\necho E: no route to the mirror >&2\nexit 1\n")
    with pytest.raises(CannotGoOn, match="no route to the mirror"):
        debian_python.make(tmp_path / "cache", tmp_path / "log")
