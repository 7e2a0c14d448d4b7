# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Progress out of what ansible-playbook prints."""

from __future__ import annotations

from ansible_collections.colocation.kubernetes.tests.run.story.plays import (
    Played,
    Progress,
    table,
    timed,
    why,
)

OUTPUT = """
PLAY [Prepare the nodes] *******************************************************

TASK [node_prep : Look at the swap] ********************************************
ok: [worker1]
fatal: [worker1]: FAILED! => {"msg": "no"}

PLAY [Prepare the nodes] *******************************************************

TASK [node_prep : Look at the swap] ********************************************
ok: [worker2]

PLAY [Place pods] **************************************************************

PLAY RECAP *********************************************************************
worker1                    : ok=32   changed=6    unreachable=1    failed=1    skipped=0    rescued=0    ignored=0
worker2                    : ok=30   changed=0    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
"""


def test_each_play_is_said_once_though_batches_repeat_it() -> None:
    progress = Progress()
    assert [phrase for line in OUTPUT.splitlines() for phrase in progress.line(line)] == [
        "Prepare the nodes",
        "Place pods",
    ]
    assert progress.task == "node_prep : Look at the swap"
    assert progress.tasks == 2
    assert progress.changed == 6
    assert progress.recap == ["worker1: 32 ok, 6 changed, 2 failed", "worker2: 30 ok, 0 changed, 0 failed"]


def test_what_failed_is_shown_from_its_first_line_on() -> None:
    assert why(OUTPUT, 3)[:2] == ["ok: [worker1]", 'fatal: [worker1]: FAILED! => {"msg": "no"}']


def test_a_failure_without_a_fatal_line_shows_the_end() -> None:
    assert why("a\n\nb\nc\n", 2) == ["b", "c"]


def test_the_time_of_each_play_lasts_until_the_next() -> None:
    played = timed("site.yml", 100.0, [("Look", 104.0), ("Prepare", 130.0)], 250.0, 7)
    assert played == Played("site.yml", 150.0, (("Look", 26.0), ("Prepare", 120.0)), 7)
    assert table([played]).splitlines() == [
        "  2:30  site.yml, 7 changed",
        "          0:26  Look",
        "          2:00  Prepare",
    ]
    assert timed("x.yml", 0.0, [], 1.0, 0).plays == ()
