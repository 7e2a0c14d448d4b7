# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_decide import (
    HEALTHY,
    SWITCHING,
    Previous,
    Record,
    Seen,
    Setup,
    Step,
    begin,
    decide,
    finish,
    taken_back,
)

WANTED = Setup("2", "config", "unit")
OLD = Setup("1", "old config", "old unit")
SETTLED = Record(HEALTHY, WANTED)
AS_WANTED = Seen(WANTED, 0o600, 0o644, False, False, True, True, False)


@pytest.mark.parametrize(
    ("seen", "record", "steps"),
    [
        (AS_WANTED, SETTLED, "gate"),
        (replace(AS_WANTED, enabled=False), SETTLED, "enable gate"),
        (replace(AS_WANTED, active=False), SETTLED, "start gate"),
        (replace(AS_WANTED, config_differs=True), SETTLED, "record config restart gate confirm"),
        (replace(AS_WANTED, unit_differs=True), SETTLED, "record unit restart gate confirm"),
        (replace(AS_WANTED, code_differs=True), SETTLED, "record restart gate confirm"),
        (replace(AS_WANTED, setup=replace(WANTED, release="1")), SETTLED, "record link gate confirm"),
        (AS_WANTED, None, "record restart gate confirm"),
        (AS_WANTED, Record(SWITCHING, WANTED), "record restart gate confirm"),
        (AS_WANTED, Record(SWITCHING, WANTED, restart=False), "record gate confirm"),
        (AS_WANTED, Record(HEALTHY, replace(WANTED, config_sha256="x")), "record restart gate confirm"),
        (AS_WANTED, Record(HEALTHY, replace(WANTED, release="x")), "record gate confirm"),
        (Seen(), None, "record config unit link enable start gate confirm"),
    ],
)
def test_the_steps(seen: Seen, record: Record | None, steps: str) -> None:
    assert " ".join(step.value for step in decide(seen, WANTED, record).steps) == steps


setups = st.builds(Setup, *[st.sampled_from(["", "1", "2"])] * 3)
previous = st.none() | st.builds(Previous, setups, st.booleans(), st.booleans())
records = st.none() | st.builds(Record, st.sampled_from([SWITCHING, HEALTHY]), setups, previous, st.booleans())
sights = st.builds(Seen, setups, st.just(0o600), st.just(0o644), *[st.booleans()] * 5)


@given(sights, records)
def test_what_is_done_needs_not_be_done_again(seen: Seen, record: Record | None) -> None:
    plan = decide(seen, WANTED, record)
    after = finish(begin(seen, WANTED, record, plan)) if plan.switches else record
    assert decide(AS_WANTED, WANTED, after).steps == (Step.GATE,)


@given(sights, records)
def test_a_restart_has_a_reason_and_what_changes_files_is_on_record(seen: Seen, record: Record | None) -> None:
    plan = decide(seen, WANTED, record)
    assert plan.starts == bool(plan.reasons)
    if {Step.CONFIG, Step.UNIT, Step.LINK} & set(plan.steps):
        assert plan.steps[0] is Step.RECORD
        assert plan.steps[-1] is Step.CONFIRM
    assert list(plan.steps) == [step for step in Step if step in plan.steps]


@given(sights, sights, records)
def test_the_way_back_leads_to_before_the_first_of_interrupted_runs(
    first: Seen, second: Seen, record: Record | None
) -> None:
    begun = begin(first, WANTED, record, decide(first, WANTED, record))
    again = begin(second, OLD, begun, decide(second, OLD, begun))
    assert again.previous == begun.previous
    assert again.wanted == OLD
    assert again.restart >= begun.restart


def test_after_the_way_back_the_former_setup_is_settled() -> None:
    record = Record(SWITCHING, WANTED, Previous(OLD, True, True))
    after = taken_back(record)
    assert after == Record(HEALTHY, OLD, None, False)
    assert decide(replace(AS_WANTED, setup=OLD), OLD, after).steps == (Step.GATE,)
    assert taken_back(replace(record, previous=Previous(Setup("1")))) is None
    assert taken_back(replace(record, previous=None)) is None
