# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What rounds of pods on GPUs are made of, and what is said of the pods: what agrees, differs, and finds room."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.colocation.kubernetes.tests.contract.agents.gpu_rounds import (
    ASSIGNED,
    FILLED,
    GIB,
    MIB,
    OF_CONTAINER,
    OF_POD,
    STRIKES,
    TOTAL,
    UNITS,
    UUID,
    UUIDS,
    Shape,
    Told,
    at_once,
    coming,
    honoured,
    strike,
    wrong,
    wrong_holders,
)

A, B, C, D = UUIDS


def units(gpu: str, begin: int, gib: int) -> list[str]:
    return [f"{gpu[4:12]}-{number}" for number in range(begin, begin + gib * GIB)]


def environment(gpu: str, gib: int, **more: str) -> dict[str, str]:
    return {
        "NVIDIA_VISIBLE_DEVICES": gpu,
        UUID: gpu,
        OF_CONTAINER: str(gib * 1024),
        TOTAL: str(MIB),
        **more,
    }


def told(name: str, gpu: str, begin: int, gib: int = 4) -> Told:
    notes = {UUID: gpu, ASSIGNED: "true"}
    return Told(name, Shape((gib,)), {"c0": units(gpu, begin, gib)}, {"c0": environment(gpu, gib)}, notes)


GOOD = told("one", A, 0)


def test_what_agrees() -> None:
    of_pod = str(6 * 1024)
    two = Told(
        "two", Shape((2, 4)), {"c0": units(B, 0, 2), "c1": units(A, 200, 4)},
        {"c0": environment(B, 2), "c1": environment(A, 4, **{OF_POD: of_pod})}, {UUID: f"{B},{A}", ASSIGNED: "true"},
    )  # fmt: skip
    led = Told(
        "led", Shape((2, 2), init=4), {"i0": units(C, 0, 4), "c0": units(C, 0, 2), "c1": units(C, 2 * GIB, 2)},
        {"i0": environment(C, 4), "c0": environment(C, 2), "c1": environment(C, 2)}, {UUID: C, ASSIGNED: "true"},
    )  # fmt: skip
    assert wrong([GOOD, two, led]) == []
    assert wrong([replace(led, ids={**led.ids, "c1": led.ids["c0"]})]) == []  # of an init container's any may be left
    assert "together" in "".join(wrong([replace(led, ids={**led.ids, "c1": units(C, 500, 2)})]))


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (replace(GOOD, ids={"c0": units(A, 0, 8)}), "has 256 units"),
        (replace(GOOD, ids={}), "has 0 units"),
        (replace(GOOD, ids={"c0": [*units(A, 0, 2), *units(B, 0, 2)]}), "of one GPU"),
        (replace(GOOD, ids={"c0": units(A, UNITS - GIB, 4)}), "are of no GPU"),
        (replace(GOOD, environment={"c0": environment(B, 4)}), "was told"),
        (replace(GOOD, environment={"c0": environment(A, 8)}), "was told"),
        (replace(GOOD, environment={"c0": environment(A, 4, **{TOTAL: "1"})}), "was told"),
        (replace(GOOD, environment={"c0": environment(A, 4, **{OF_POD: "1"})}), "was told"),
        (replace(GOOD, environment={}), "was told"),
        (replace(GOOD, annotations={UUID: B, ASSIGNED: "true"}), "is annotated"),
        (replace(GOOD, annotations={UUID: A, ASSIGNED: "false"}), "is annotated"),
        (replace(GOOD, annotations={}), "is annotated"),
    ],
)
def test_what_differs(pod: Told, said: str) -> None:
    assert said in "\n".join(wrong([pod]))


def test_what_is_over_committed() -> None:
    assert any("128 units have two holders" in said for said in wrong([GOOD, replace(GOOD, name="two")]))
    many = [told(f"pod-{number}", A, number * 16 * GIB, 16) for number in range(6)]
    assert any(f"programs were promised {6 * 16 * 1024} MiB" in said for said in wrong(many))


def test_holders_on_the_page() -> None:
    row, other = ("s/one", "c0", A, "4.00 GiB"), ("UID 7", "c0", B, "4.00 GiB")
    assert wrong_holders([row], "s", [GOOD]) == []
    assert "does not know" in wrong_holders([], "s", [GOOD])[0]
    assert len(wrong_holders([("UID 1", *row[1:])], "s", [GOOD])) == 2
    assert "is none" in wrong_holders([row, other], "s", [GOOD])[0]
    assert wrong_holders([row, other], "s", [GOOD], [("c0", units(B, 9, 4))]) == []


def test_a_swap_keeps_to_the_plan() -> None:
    pods = [told("one", A, 0), told("two", B, 0), told("large", C, 0, 8), told("unplanned", D, 0)]
    assert honoured({"one": B, "two": A, "large": C}, pods) == (3, 3)
    assert honoured({"one": B, "two": C, "large": A}, pods) == (1, 3)


def test_each_kind_of_round_has_all_that_can_befall() -> None:
    for upper in (False, True):
        assert {strike(number, upper) for number in range(3)} == set(STRIKES)
    assert {strike(0, False), strike(0, True)} == {"restart", "kill"}


@given(some.integers(0, 1 << 32), some.sampled_from([8, 40]))
def test_all_pods_come_and_find_room(seed: int, count: int) -> None:
    """Those that come at once in any order, on any GPU that has room."""
    chance = random.Random(seed)
    places: list[tuple[Shape, str]] = []

    def place(shape: Shape) -> None:
        room = {gpu: MIB // 1024 - sum(one.size for one, where in places if where == gpu) for gpu in UUIDS}
        places.append((shape, chance.choice([gpu for gpu in UUIDS if room[gpu] >= shape.size])))

    for _round in range(5):
        left = chance.sample(places, len(places) - len(places) // 4)
        shapes = coming(chance, count - len(left), sum(shape.size for shape, _gpu in left))
        now = at_once(shapes, sum(shape.size for shape, _gpu in places))
        for shape in chance.sample(shapes[:now], now):
            place(shape)
        places = [*left, *places[len(places) - now :]]
        for shape in shapes[now:]:
            place(shape)
        assert len(places) == count
        assert len(shapes) >= count // 4
        assert sum(shape.size for shape, _gpu in places) <= FILLED
