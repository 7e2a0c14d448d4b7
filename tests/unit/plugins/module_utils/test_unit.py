# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError, UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import bring
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import FakeSystemd


@pytest.fixture
def double(tmp_path: Path) -> FakeSystemd:
    return FakeSystemd(tmp_path / "root")


@pytest.fixture
def systemd(double: FakeSystemd) -> Systemd:
    return Systemd(double, str(double.root), clock=double.clock, sleep=double.sleep)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "state"), "role")


@pytest.fixture
def dry(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "state"), "role", check_mode=True)


UP = UnitWish("started", True, False)
DOWN = UnitWish("stopped", False, True)


def test_check_mode_tells_exactly_what_the_run_does(
    double: FakeSystemd, systemd: Systemd, ledger: Ledger, dry: Ledger
) -> None:
    double.install("a.service")
    systemd.mask("a")
    double.calls.clear()
    told = bring(systemd, dry, "a", UP)
    assert double.changes() == []
    done = bring(systemd, ledger, "a", UP)
    assert told == done
    assert done.steps == ("unmask", "enable", "start")
    assert done.diff()["before"] == "active: false\nenabled: false\nmasked: true\n"
    assert done.diff()["after"] == "active: true\nenabled: true\nmasked: false\n"
    assert not bring(systemd, ledger, "a", UP).changed


def test_the_former_state_is_noted_before_the_change(double: FakeSystemd, systemd: Systemd, ledger: Ledger) -> None:
    double.install("a.service", comes_up=False)
    with pytest.raises(UnitError):
        bring(systemd, ledger, "a", UP)
    (entry,) = ledger.entries()
    assert (entry.kind, entry.name) == ("unit", "a.service")
    assert entry.before == {"active": False, "enabled": False, "masked": False}
    assert entry.after == {"active": True, "enabled": True, "masked": False}


def test_a_restart_is_a_change_but_nothing_to_undo(double: FakeSystemd, systemd: Systemd, ledger: Ledger) -> None:
    double.install("a.service", active="active")
    change = bring(systemd, ledger, "a", UnitWish("restarted"))
    assert (change.changed, change.diff()["after"]) == (True, "restarted\n")
    assert ledger.entries() == []


@pytest.mark.parametrize("masked_by", ["a link", "an empty file"])
def test_what_a_repair_mended_is_not_remembered(
    double: FakeSystemd, systemd: Systemd, ledger: Ledger, masked_by: str
) -> None:
    double.install("a.service")
    if masked_by == "a link":
        systemd.mask("a")
    else:
        Path(systemd.admin_path("a")).parent.mkdir(parents=True)
        Path(systemd.admin_path("a")).touch()
    assert bring(systemd, ledger, "a", UP, remember=False).steps == ("unmask", "enable", "start")
    assert systemd.look("a").record() == {"active": True, "enabled": True, "masked": False}
    assert ledger.entries() == []


def test_what_was_remembered_before_a_repair_stays_so(double: FakeSystemd, systemd: Systemd, ledger: Ledger) -> None:
    double.install("a.service")
    bring(systemd, ledger, "a", UP)
    remembered = ledger.entries()
    systemd.stop("a", 1)
    systemd.mask("a")
    bring(systemd, ledger, "a", UP, remember=False)
    assert ledger.entries() == remembered


def test_a_missing_unit_fails_except_in_check_mode_when_told_that_it_will_come(
    systemd: Systemd, ledger: Ledger, dry: Ledger
) -> None:
    with pytest.raises(UnitError, match="not installed"):
        bring(systemd, dry, "a", UP)
    assert bring(systemd, dry, "a", UP, assume_installed=True).steps == ("enable", "start")
    with pytest.raises(UnitError, match="not installed"):
        bring(systemd, ledger, "a", UP, assume_installed=True)
    systemd.mask("a")
    assert bring(systemd, dry, "a", UP, assume_installed=True).steps == ("unmask", "enable", "start")


def test_a_real_unit_file_makes_way_for_a_mask_and_is_kept(
    double: FakeSystemd, systemd: Systemd, ledger: Ledger
) -> None:
    double.install("a.service", active="active")
    path = Path(systemd.admin_path("a"))
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\n# by hand\n")
    bring(systemd, ledger, "a", DOWN)
    assert os.readlink(path) == "/dev/null"
    assert systemd.look("a").masked
    kept = [ledger.original(entry) for entry in ledger.entries() if entry.kind == "file"]
    assert kept == [b"[Service]\n# by hand\n"]


def test_an_empty_file_that_masks_is_taken_away_and_kept(double: FakeSystemd, systemd: Systemd, ledger: Ledger) -> None:
    double.install("a.service")
    path = Path(systemd.admin_path("a"))
    path.parent.mkdir(parents=True)
    path.touch()
    assert bring(systemd, ledger, "a", UP).after == {"active": True, "enabled": True, "masked": False}
    assert [ledger.original(entry) for entry in ledger.entries() if entry.kind == "file"] == [b""]


def test_a_unit_that_still_starts_is_waited_for(double: FakeSystemd, systemd: Systemd, ledger: Ledger) -> None:
    double.install("a.service", active="activating")
    with pytest.raises(UnitError, match="activating"):
        bring(systemd, ledger, "a", UnitWish("started"), timeout=3)
    assert double.now >= 3
