# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import (
    Systemd,
    UnitError,
    UnitState,
    UnitWish,
    full_name,
    parse_show,
    record_after,
    steps_to,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.ledger_doubles import FakeSystemd

SHOWN = """\
Type=notify
LoadState=loaded
ActiveState=activating
SubState=start
UnitFileState=enabled
FragmentPath=/usr/lib/systemd/system/containerd.service
NeedDaemonReload=yes
Job=4711
MainPID=99
Result=success
"""


@pytest.fixture
def double(tmp_path: Path) -> FakeSystemd:
    return FakeSystemd(tmp_path)


@pytest.fixture
def systemd(double: FakeSystemd) -> Systemd:
    return Systemd(double, str(double.root), clock=double.clock, sleep=double.sleep)


def test_show_is_read() -> None:
    state = parse_show("containerd.service", SHOWN)
    assert (state.load, state.active, state.enablement, state.job, state.main_pid) == (
        "loaded",
        "activating",
        "enabled",
        "4711",
        "99",
    )
    assert (state.stale, state.exists, state.running, state.enabled, state.masked) == (True, True, True, True, False)


def test_an_unknown_unit_is_not_there() -> None:
    state = parse_show("a.service", "LoadState=not-found\nActiveState=inactive\nJob=0\nUnitFileState=\n")
    assert (state.exists, state.running, state.enabled, state.job) == (False, False, False, "")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("kubelet", "kubelet.service"),
        ("kubelet.service", "kubelet.service"),
        ("dev-vda3.swap", "dev-vda3.swap"),
        ("getty@tty1", "getty@tty1.service"),
        ("org.example.thing", "org.example.thing.service"),
    ],
)
def test_names_get_their_suffix(name: str, full: str) -> None:
    assert full_name(name) == full


RUNS = UnitState("a.service", "loaded", "active", enablement="enabled")
STANDS = UnitState("a.service", "loaded", "inactive", enablement="disabled")
MASKED = UnitState("a.service", "masked", "inactive", enablement="masked", beneath_mask=True)
MISSING = UnitState("a.service")
STATIC = UnitState("a.service", "loaded", "inactive", enablement="static")


@pytest.mark.parametrize(
    ("now", "wish", "steps"),
    [
        (RUNS, UnitWish(), []),
        (RUNS, UnitWish("started", True, False), []),
        (STANDS, UnitWish("started", True, False), ["enable", "start"]),
        (MASKED, UnitWish("started", True, False), ["unmask", "enable", "start"]),
        (RUNS, UnitWish("stopped", False, True), ["disable", "stop", "mask"]),
        (RUNS, UnitWish("restarted"), ["restart"]),
        (STANDS, UnitWish("restarted"), ["restart"]),
        (MISSING, UnitWish("stopped", False), []),
        (MISSING, UnitWish(masked=True), ["mask"]),
        (MASKED, UnitWish("stopped", masked=True), []),
        (STATIC, UnitWish("started", True), ["start"]),
        (UnitState("a.service", "loaded", "activating", enablement="enabled"), UnitWish("started"), []),
        (UnitState("a.service", "loaded", "failed", enablement="enabled"), UnitWish("started"), ["start"]),
        (UnitState("a.service", "loaded", "failed", enablement="enabled"), UnitWish("stopped"), []),
    ],
)
def test_the_steps_to_a_wish(now: UnitState, wish: UnitWish, steps: list[str]) -> None:
    assert steps_to(now, wish) == steps


@pytest.mark.parametrize(
    ("now", "wish", "words"),
    [
        (MISSING, UnitWish("started"), "not installed"),
        (MISSING, UnitWish(enabled=True), "not installed"),
        (MASKED, UnitWish("started"), "masked: false"),
        (RUNS, UnitWish("restarted", masked=True), "is masked"),
        (UnitState("a.service", "masked", enablement="masked"), UnitWish("started", masked=False), "not installed"),
    ],
)
def test_there_is_no_way(now: UnitState, wish: UnitWish, words: str) -> None:
    with pytest.raises(UnitError, match=words):
        steps_to(now, wish)


def test_the_record_follows_the_steps() -> None:
    assert record_after(MASKED, ["unmask", "enable", "start"]) == {"active": True, "enabled": True, "masked": False}
    assert record_after(RUNS, ["disable", "stop", "mask"]) == {"active": False, "enabled": False, "masked": True}


def test_a_mask_hides_the_unit_and_its_enablement_which_are_found(double: FakeSystemd, systemd: Systemd) -> None:
    double.install("a.service", enablement="enabled")
    double.install("b.service")
    for name in ("a.service", "b.service", "none.service"):
        systemd.mask(name)
    states = [systemd.look(name) for name in ("a", "b", "none")]
    assert [(s.masked, s.exists, s.enabled) for s in states] == [
        (True, True, True),
        (True, True, False),
        (True, False, False),
    ]


def test_a_real_unit_file_is_never_masked_away(double: FakeSystemd, systemd: Systemd) -> None:
    path = Path(systemd.admin_path("a"))
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\n")
    with pytest.raises(UnitError, match="a mask would lose it"):
        systemd.mask("a")
    systemd.unmask("a")
    assert path.read_text() == "[Service]\n"
    assert double.changes() == []


def test_masks_of_both_kinds_are_taken_off(double: FakeSystemd, systemd: Systemd) -> None:
    double.install("a.service")
    systemd.mask("a", runtime=True)
    assert systemd.look("a").record()["masked"] == "runtime"
    systemd.mask("a")
    assert systemd.look("a").record()["masked"] is True
    systemd.unmask("a")
    assert systemd.look("a").record()["masked"] is False


def test_an_empty_file_counts_as_a_mask(double: FakeSystemd, systemd: Systemd) -> None:
    double.install("a.service")
    path = Path(systemd.admin_path("a"))
    path.parent.mkdir(parents=True)
    path.touch()
    assert (systemd.has_empty_file("a"), systemd.has_real_file("a"), systemd.look("a").masked) == (True, False, True)


def test_a_failed_start_gives_the_journal(double: FakeSystemd, systemd: Systemd) -> None:
    double.install("a.service", comes_up=False)
    with pytest.raises(UnitError, match=r"a.service failed \(exit-code\) after start; .*\n.*last words of a.service"):
        systemd.start("a")


def test_a_failed_unit_is_reset_before_it_starts_again(double: FakeSystemd, systemd: Systemd) -> None:
    double.install("a.service", active="failed")
    systemd.start("a")
    assert double.changes() == ["reset-failed a.service", "start a.service"]


class Scripted:
    """systemctl show answers from a list, the last one again and again; all else succeeds."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.now = 0.0

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "journalctl":
            return 0, "journal\n", ""
        if command[1] != "show":
            return 0, "", ""
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return 0, "LoadState=loaded\n" + state.replace(" ", "\n"), ""

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def systemd(self) -> Systemd:
        return Systemd(self, "/nowhere", clock=self.clock, sleep=self.sleep)


def test_waiting_ends_at_the_limit_with_the_state_and_the_journal() -> None:
    script = Scripted("ActiveState=activating SubState=auto-restart Type=notify")
    with pytest.raises(UnitError, match=r"(?s)a.service is activating \(auto-restart\) 5 s after start.*journal"):
        script.systemd().start("a", timeout=5)
    assert 5 <= script.now < 6


def test_a_queued_job_is_waited_for() -> None:
    script = Scripted(
        "ActiveState=inactive", "ActiveState=active Job=5", "ActiveState=active Job=5", "ActiveState=active"
    )
    assert script.systemd().start("a").active == "active"
    assert script.now == pytest.approx(0.4)


def test_a_simple_service_has_to_live_a_second() -> None:
    up, dead = "ActiveState=active Type=simple MainPID=5", "ActiveState=failed Type=simple Result=exit-code"
    with pytest.raises(UnitError, match="failed"):
        Scripted("ActiveState=inactive", up, dead, dead).systemd().start("a")
    other = "ActiveState=active Type=simple MainPID=6"
    script = Scripted("ActiveState=inactive", up, other, other, other)
    assert script.systemd().start("a").main_pid == "6"
    assert script.now > 2


def test_a_oneshot_that_is_done_counts_as_started() -> None:
    script = Scripted("ActiveState=inactive Type=oneshot Result=success")
    assert script.systemd().start("a").active == "inactive"


def test_stop_waits_too() -> None:
    script = Scripted("ActiveState=deactivating", "ActiveState=deactivating", "ActiveState=inactive")
    assert script.systemd().stop("a").active == "inactive"
    with pytest.raises(UnitError, match="still deactivating"):
        Scripted("ActiveState=deactivating").systemd().stop("a", timeout=3)


def test_no_systemd_is_said() -> None:
    systemd = Systemd(lambda command: (1, "", "System has not been booted with systemd"), os.sep)
    with pytest.raises(UnitError, match="not been booted with systemd; is this node run by systemd"):
        systemd.look("a")
