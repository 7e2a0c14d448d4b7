# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""When a plugin begins anew: every reason, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.config import LONGEST_SOCKET_NAME
from colocation.device_plugin.lifecycle import (
    Life,
    Sight,
    Step,
    decide,
    failed,
    incarnation,
    is_ours,
    registered,
    socket_name,
    stem,
)

KUBELET, OTHER = (1, 2, 3), (1, 2, 4)
GRACE = 10.0
REGISTERED = registered(100.0, KUBELET)
FAILED = Life(tried_with=KUBELET, next_try=105)


def sight(
    now: float = 101.0, kubelet: tuple[int, int, int] | None = KUBELET, there: bool = True, streams: int = 1
) -> Sight:
    return Sight(now, kubelet, there, streams)


@pytest.mark.parametrize(
    ("life", "seen", "step", "why"),
    [
        (Life(), sight(there=False, streams=0), Step.BEGIN, "not registered"),
        (Life(), sight(kubelet=None, there=False, streams=0), Step.WAIT, "the kubelet is not there"),
        (FAILED, sight(there=False, streams=0), Step.WAIT, "the last try failed; the next one follows"),
        (FAILED, sight(now=105, there=False, streams=0), Step.BEGIN, "not registered"),
        (FAILED, sight(kubelet=OTHER, there=False, streams=0), Step.BEGIN, "not registered"),
        (REGISTERED, sight(), Step.KEEP, "registered"),
        (REGISTERED, sight(streams=0), Step.KEEP, "registered; the kubelet does not watch yet"),
        (REGISTERED, sight(now=110, streams=0), Step.KEEP, "registered; the kubelet does not watch yet"),
        (REGISTERED, sight(now=110.1, streams=0), Step.BEGIN, "the kubelet did not watch our list for 10 s"),
        (REGISTERED, sight(kubelet=OTHER), Step.BEGIN, "the kubelet started anew"),
        (REGISTERED, sight(there=False), Step.BEGIN, "our socket was removed"),
        (REGISTERED, sight(kubelet=None, there=False, streams=0), Step.WAIT, "the kubelet is not there"),
    ],
)
def test_each_reason(life: Life, seen: Sight, step: Step, why: str) -> None:
    decision = decide(life, seen, GRACE)
    assert (decision.step, decision.why) == (step, why)


def test_the_grace_counts_from_the_last_time_that_somebody_watched() -> None:
    life = decide(REGISTERED, sight(now=150), GRACE).life
    assert decide(life, sight(now=160, streams=0), GRACE).step is Step.KEEP
    assert decide(life, sight(now=160.1, streams=0), GRACE).step is Step.BEGIN


def test_tries_come_later_and_later_but_never_stop() -> None:
    life, waits = Life(), []
    for _n in range(6):
        life = failed(life, 0, 5, KUBELET)
        waits.append(life.next_try)
    assert waits == [5, 10, 20, 40, 40, 40]
    assert failed(life, 0, 5, OTHER).next_try == 5, "another kubelet is another matter"
    assert registered(1, KUBELET).failures == 0


SIGHTS = st.builds(
    Sight,
    st.floats(0, 1e6),
    st.none() | st.sampled_from((KUBELET, OTHER)),
    st.booleans(),
    st.integers(0, 2),
)
TIMES = st.floats(0, 1e6)
LIVES = st.builds(Life, st.none() | st.just(KUBELET), TIMES, st.none() | st.just(KUBELET), TIMES, st.integers(0, 20))


@given(LIVES, SIGHTS)
def test_without_a_kubelet_nothing_begins(life: Life, seen: Sight) -> None:
    decision = decide(life, seen, GRACE)
    if seen.kubelet is None:
        assert decision.step is Step.WAIT


@given(LIVES, SIGHTS)
def test_what_is_watched_on_its_socket_by_its_kubelet_is_left_alone(life: Life, seen: Sight) -> None:
    same_kubelet = seen.kubelet is not None and life.registered_with == seen.kubelet
    well = same_kubelet and seen.socket_there and seen.streams > 0
    if well:
        assert decide(life, seen, GRACE).step is Step.KEEP


NAMES = st.from_regex(r"[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}", fullmatch=True)


@given(NAMES, st.integers(0))
def test_a_socket_has_a_short_name_that_is_known_as_ours(resource: str, nanoseconds: int) -> None:
    name = socket_name(stem(resource), incarnation(nanoseconds))
    assert len(name) <= LONGEST_SOCKET_NAME
    assert is_ours(name, stem(resource))
    assert "/" not in name


@given(NAMES, NAMES)
def test_resources_do_not_share_sockets(one: str, other: str) -> None:
    if one != other:
        assert stem(one) != stem(other)


def test_resources_that_look_alike_do_not_share_sockets() -> None:
    assert len({stem(name) for name in ("a-b/c", "a/b-c", "a/b_c", "a.b/c")}) == 4


def test_other_files_are_not_ours() -> None:
    for name in ("mock.com_gpu.sock", "kubelet.sock", "mock.com_gpu.x.sock", "mock.com_gpu2.0123456789abcdef.sock"):
        assert not is_ours(name, "mock.com_gpu")
    assert stem("mock.com/gpu") == "mock.com_gpu"
