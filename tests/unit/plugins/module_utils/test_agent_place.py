# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Putting the kubeconfig on a node and taking it away again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import CredentialsError, Identity
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_place import (
    Place,
    put,
    recorded_account,
    standing,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import Limits, Walk
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made

SECRET = made.token("sa", 0, 4 * 10**9)
MINTED = Identity("minted", Access("https://a:1", "here", Material(content="CA"), token=Material(content=SECRET)))
KUBELET = Identity("kubelet", Access("https://a:1", "here", certificate=Material("/a"), key=Material("/a")))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "state"))


def ledger(place: Place, check_mode: bool = False) -> Ledger:
    return Ledger(place.state_dir, "credentials", check_mode)


def mode(path: str) -> int:
    return os.stat(path, follow_symlinks=False).st_mode & 0o7777


def restore(place: Place) -> list[str]:
    report = Walk(ledger(place), lambda _command: (0, "", ""), Limits(owners=("credentials",))).go()
    assert (report.kept, report.problems) == ([], [])
    return [entry["name"] for entry in report.restored]


def everything(place: Place) -> str:
    return "".join(path.read_text() for path in Path(place.state_dir, "ledger").iterdir())


def test_check_mode_says_the_same_and_touches_nothing(place: Place) -> None:
    told = put(ledger(place, True), place, MINTED)
    assert not os.path.exists(place.state_dir)
    assert put(ledger(place), place, MINTED) == told
    assert told.changed
    assert put(ledger(place), place, MINTED).changed is False
    assert (mode(place.kubeconfig), mode(place.directory)) == (0o600, 0o700)


def test_no_secret_in_diff_or_ledger(place: Place) -> None:
    for identity in (MINTED, KUBELET, MINTED):
        diff = put(ledger(place), place, identity).diff
        assert SECRET not in json.dumps(diff)
        assert SECRET not in everything(place)
    assert "source: kubelet" in diff["before"]
    assert diff["after"].startswith("source: minted\nserver: https://a:1\n")


def test_what_stands_is_read_back(place: Place, tmp_path: Path) -> None:
    assert standing(place) is None
    put(ledger(place), place, MINTED)
    now = standing(place)
    assert now is not None
    assert (now.source, now.access.token.content) == ("minted", SECRET)
    conf = tmp_path / "kubelet.conf"
    conf.write_text(made.kubeconfig({"token": SECRET, "client-certificate": ""}))
    put(ledger(place), place, Identity("kubelet", MINTED.access, str(conf)))
    now = standing(place)
    assert now is not None
    assert (now.source, now.link) == ("kubelet", str(conf))
    assert os.readlink(place.kubeconfig) == str(conf)
    put(ledger(place), place, KUBELET)
    assert conf.read_text().count(SECRET) == 1  # the link was replaced, not what it led to
    Path(place.kubeconfig).write_text("nonsense")
    with pytest.raises(AccessError):
        standing(place)
    assert put(ledger(place), place, KUBELET).diff["before"] == "(no kubeconfig that can be used)\n"


def test_what_others_could_read_is_closed(place: Place) -> None:
    put(ledger(place), place, MINTED)
    os.chmod(place.directory, 0o755)
    os.chmod(place.kubeconfig, 0o644)
    told = put(ledger(place, True), place, MINTED)
    assert mode(place.kubeconfig) == 0o644
    done = put(ledger(place), place, MINTED)
    assert (told, done.changed) == (done, True)
    assert "mode: 0644\n" in done.diff["before"]
    assert "directory mode: 0755\n" in done.diff["before"]
    assert (mode(place.kubeconfig), mode(place.directory)) == (0o600, 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_another_owner_loses_it(place: Place) -> None:
    put(ledger(place), place, MINTED)
    os.chown(place.kubeconfig, 1234, 1234)
    assert put(ledger(place, True), place, MINTED).changed
    assert put(ledger(place), place, MINTED).changed
    assert os.stat(place.kubeconfig).st_uid == 0
    assert not put(ledger(place), place, MINTED).changed


def test_all_is_gone_after_the_uninstall(place: Place) -> None:
    for identity in (KUBELET, MINTED):
        put(ledger(place), place, identity)
    assert restore(place) == [place.kubeconfig, place.directory]
    assert not os.path.exists(place.state_dir)
    assert restore(place) == []


def test_something_else_in_the_way_is_told(place: Place) -> None:
    os.makedirs(place.state_dir)
    Path(place.directory).write_text("")
    with pytest.raises(CredentialsError, match="is no directory; move it away"):
        put(ledger(place), place, KUBELET)


def test_the_account_that_was_noted(place: Place) -> None:
    assert recorded_account(place) is None
    os.makedirs(place.directory)
    Path(place.account).write_text('{"namespace": "kube-system", "node": "w1"}\n')
    assert recorded_account(place) == {"namespace": "kube-system", "node": "w1"}
    Path(place.account).write_text("{}")
    with pytest.raises(CredentialsError, match="names the account that was minted"):
        recorded_account(place)
