# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The socket's life: private, taken over without a gap, never by two."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from colocation.cri_proxy.listener import Listener, Taken


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="cri-", dir="/tmp") as made:
        yield f"{made}/run/cri-resmgr.sock"


def dial(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def test_it_is_for_its_owner_alone(path: str) -> None:
    before = os.umask(0)
    try:
        listener = Listener(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(f"{path}.lock").st_mode) == 0o600
    dial(path).close()
    listener.close()
    assert os.listdir(os.path.dirname(path)) == ["cri-resmgr.sock.lock"]


def test_a_second_instance_is_refused_and_changes_nothing(path: str) -> None:
    first = Listener(path)
    with pytest.raises(Taken, match="another instance serves there"):
        Listener(path)
    dial(path).close()
    first.close()
    Listener(path).close()


def test_what_a_killed_instance_left_is_taken_over(path: str) -> None:
    source = f"import os; from colocation.cri_proxy.listener import Listener; Listener({path!r}); os._exit(9)"
    environment = {**os.environ, "PYTHONPATH": str(Path(sys.modules["colocation"].__path__[0]).parent)}
    assert subprocess.run([sys.executable, "-c", source], check=False, env=environment).returncode == 9
    Path(f"{path}.new").touch()
    with pytest.raises(ConnectionRefusedError):
        dial(path)
    listener = Listener(path)
    dial(path).close()
    listener.close()


def test_the_path_never_lacks_a_file_while_it_is_taken_over(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Listener(path)
    fcntl.flock(killed._lock, fcntl.LOCK_UN)
    unlinked = []
    monkeypatch.setattr(os, "unlink", unlinked.append)
    listener = Listener(path)
    assert path not in unlinked
    dial(path).close()
    monkeypatch.undo()
    killed.close()
    dial(path).close()  # the older one does not take it along
    listener.close()


def test_another_file_in_its_place_is_left_alone(path: str) -> None:
    listener = Listener(path)
    os.unlink(path)
    Path(path).write_text("mine")
    listener.close()
    assert Path(path).read_text() == "mine"


def test_a_directory_that_vanished_is_no_matter_at_the_end(path: str) -> None:
    listener = Listener(path)
    for name in os.listdir(os.path.dirname(path)):
        os.unlink(f"{os.path.dirname(path)}/{name}")
    os.rmdir(os.path.dirname(path))
    listener.close()


def test_an_impossible_place_is_named(path: str) -> None:
    directory = os.path.dirname(path)
    with pytest.raises(OSError, match=r"can't listen at .*sss"):
        Listener(f"{directory}/{'s' * 110}")
    os.mkdir(f"{path}.new")
    with pytest.raises(OSError, match="can't listen at"):
        Listener(path)
    os.rmdir(f"{path}.new")
    Listener(path).close()
