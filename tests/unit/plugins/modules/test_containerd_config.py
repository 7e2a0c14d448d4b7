# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The module around the decision: what it writes, keeps, refuses and tells. containerd is a made program here."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_ask import Assumed
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_restart import NAME, Now, read_note
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import Version
from ansible_collections.colocation.kubernetes.plugins.modules import containerd_config
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

MAIN = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


class Node:
    def __init__(self, root: Path) -> None:
        self.main = root / "etc" / "config.toml"
        self.state = root / "state"
        self.active_since: float | None = 1.0
        self.main.parent.mkdir()

    def __call__(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        fixed = {"path": str(self.main), "state_dir": str(self.state)}
        return call(containerd_config.main, check_mode, **{**fixed, **params})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)

    def find(_module: AnsibleModule) -> tuple[Assumed, str]:
        return Assumed(Version(1, 7, 24)), "1.7.24"

    monkeypatch.setattr(containerd_config, "find_oracle", find)
    monkeypatch.setattr(
        containerd_config, "look_at_moment", lambda _module: Now(time.monotonic(), "boot", made.active_since)
    )
    return made


def test_check_mode_and_the_run_say_the_same(node: Node) -> None:
    node.main.write_text(MAIN)
    told = node(check_mode=True)
    assert node.main.read_text() == MAIN
    assert not node.state.exists()
    done = node()
    assert done == told
    assert (done["changed"], done["effective_changed"], done["restart_needed"]) == (True, True, True)
    assert (done["containerd_version"], done["config_version"]) == ("1.7.24", 2)
    assert done["files"] == [str(node.main)]
    assert "SystemdCgroup = true" in node.main.read_text()


def test_a_restart_stays_due_until_it_happens(node: Node) -> None:
    node.main.write_text(MAIN)
    node()
    again = node()
    assert (again["changed"], again["effective_changed"], again["restart_needed"]) == (False, False, True)
    node.active_since = time.monotonic() + 1
    assert node(check_mode=True)["restart_needed"] is False
    assert (node.state / NAME).exists()
    assert node()["restart_needed"] is False
    assert not (node.state / NAME).exists()


def test_a_run_that_is_killed_before_it_writes_asks_for_no_restart(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.main.write_text(MAIN)

    def killed(*_: object) -> list[str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(containerd_config, "write", killed)
        node()
    note = read_note(str(node.state))
    assert note is not None
    assert node()["changed"] is True


def test_the_original_is_in_the_ledger_and_the_mode_stays(node: Node) -> None:
    node.main.write_text(MAIN)
    node.main.chmod(0o600)
    node(owner="role")
    (entry,) = (node.state / "ledger").glob("*.json")
    assert json.loads(entry.read_text())["owner"] == "role"
    (original,) = (node.state / "ledger").glob("*.original")
    assert original.read_text() == MAIN
    assert node.main.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_is_refused_then_kept_aside(node: Node) -> None:
    node.main.write_text(f"{MAIN}x = \n")
    for check_mode in (True, False):
        refused = node(check_mode=check_mode)
        assert refused["failed"] is True
        assert "line 4, column 5" in refused["msg"]
        assert node.main.read_text() == f"{MAIN}x = \n"
    done = node(repair=True)
    (kept,) = done["backup"]
    assert Path(kept).read_text() == f"{MAIN}x = \n"
    assert Path(kept).stat().st_mode & 0o777 == 0o600
    assert done["dropped"] == [f"{node.main}, line 4: x = … (a value should stand here)"]
    assert node()["changed"] is False


def test_a_write_that_does_not_hold_fails(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.main.write_text(MAIN)
    monkeypatch.setattr(containerd_config, "write", lambda *_: [])
    assert "is not what it was to be" in node()["msg"]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node without containerd."""
    made = Node(tmp_path)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_args, **_more: None)
    return made


def test_without_containerd_check_mode_reports_a_change(bare: Node) -> None:
    told = bare(check_mode=True)
    assert (told["changed"], told["effective_changed"], told["restart_needed"]) == (True, True, True)
    assert (told["containerd_version"], told["config_version"], told["changed_keys"]) == (None, None, [])
    assert not bare.main.exists()


def test_without_containerd_an_assumed_version_tells_more(bare: Node) -> None:
    told = bare(check_mode=True, version="2.3")
    assert told["containerd_version"] is None
    assert told["config_version"] == 4
    assert told["files"] == [str(bare.main.parent / "conf.d" / "zz-colocation.toml"), str(bare.main)]
    assert "no version such as" in bare(check_mode=True, version="newest")["msg"]


def test_without_containerd_a_run_fails_and_a_broken_file_is_told(bare: Node) -> None:
    assert "install containerd first" in bare()["msg"]
    bare.main.write_text("x = \n")
    assert "line 1, column 5" in bare(check_mode=True)["msg"]
