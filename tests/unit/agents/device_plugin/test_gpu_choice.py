# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which units a container gets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.device_plugin.devices import Refused
from colocation.device_plugin.gpu_choice import Request, choose
from colocation.device_plugin.gpus import Catalog, Gpu, name, parse

GPUS = tuple(Gpu(f"GPU-{n:08x}-0000-0000-0000-000000000000", 80, numa=n // 2) for n in range(4))
CATALOG = Catalog(GPUS, 1)


def free(*rooms: int) -> list[str]:
    """So many free units of each GPU, not the lowest ones."""
    return [name(gpu.code, 79 - n) for gpu, room in zip(GPUS, rooms, strict=False) for n in range(room)]


def of(chosen: list[str]) -> dict[int, int]:
    """How many units of which GPU."""
    places = [place for place in map(parse, chosen) if place]
    return dict(Counter(int(code, 16) for code, _number in places))


@pytest.mark.parametrize(
    ("rooms", "request_", "expected"),
    [
        ((80, 30, 50, 20), Request(20), {3: 20}),
        ((80, 30, 50, 19), Request(20), {1: 20}),
        ((80, 30, 50, 20), Request(40), {2: 40}),
        ((20, 20, 20, 20), Request(20), {0: 20}),
        ((80, 30, 50, 20), Request(20, wishes=(GPUS[0].uuid,)), {0: 20}),
        ((10, 30, 50, 20), Request(20, wishes=(GPUS[0].uuid, GPUS[2].uuid)), {2: 20}),
        ((10, 30, 50, 20), Request(20, wishes=("GPU-of-another-node",)), {3: 20}),
        ((80, 30, 50, 20), Request(20, booked={GPUS[3].uuid: 1}), {1: 20}),
        ((30, 30, 30, 30), Request(20, booked={gpu.uuid: 11 for gpu in GPUS}), {0: 20}),
        ((80, 30, 50, 20), Request(20, wishes=(GPUS[1].uuid,), booked={GPUS[1].uuid: 30}), {1: 20}),
        ((80, 30, 50, 20), Request(20, wishes=(GPUS[1].uuid,), booked={GPUS[1].uuid: 31}), {3: 20}),
        ((80, 30, 50, 20), Request(10, peaks=(40,)), {2: 10}),
        ((20, 30, 25, 20), Request(10, peaks=(40,)), {0: 10}),
        ((20, 30, 25, 20), Request(10, peaks=(40, 25, 20)), {2: 10}),
        ((6, 20, 18, 0), Request(6, wishes=(GPUS[0].uuid,), peaks=(31, 6)), {0: 6}),
        ((20, 30, 25, 20), Request(10, (), (GPUS[0].uuid,), peaks=(25,)), {2: 10}),
        ((20, 30, 25, 20), Request(10, (), (GPUS[0].uuid, GPUS[1].uuid), peaks=(25,)), {1: 10}),
        ((20, 30, 25, 20), Request(10, (), (GPUS[0].uuid,), peaks=(20,)), {0: 10}),
        ((80, 30, 50, 20), Request(20, must=(name(GPUS[0].code, 0),)), {0: 20}),
        ((80, 30, 50, 20), Request(1, must=(name(GPUS[1].code, 0),)), {1: 1}),
        ((80, 30, 50, 20), Request(100, several=True), {0: 80, 1: 20}),
        ((30, 70, 60, 60), Request(110, several=True), {2: 60, 3: 50}),
        ((30, 80, 60, 40), Request(110, several=True), {1: 80, 0: 30}),
        ((80, 80, 80, 80), Request(300, several=True), {0: 80, 1: 80, 2: 80, 3: 60}),
        ((5, 80, 80, 80), Request(100, must=(name(GPUS[0].code, 0),), several=True), {0: 6, 2: 80, 3: 14}),
    ],
)
def test_which_gpu(rooms: tuple[int, ...], request_: Request, expected: dict[int, int]) -> None:
    chosen = choose(CATALOG, free(*rooms), request_)
    assert of(chosen) == expected
    assert set(request_.must) <= set(chosen)


@pytest.mark.parametrize(
    ("rooms", "request_", "said"),
    [
        ((30, 30, 30, 30), Request(40), "none has more than 30 free; all together have 120"),
        ((80, 80, 80, 80), Request(81), r"81 units \(81 MiB\) are more than any GPU of this node has"),
        ((30, 0, 0, 0), Request(40, several=True), "none has more than 30 free"),
        ((5, 80, 80, 80), Request(10, must=(name(GPUS[0].code, 0),)), "that the pod's init container had"),
    ],
)
def test_refused(rooms: tuple[int, ...], request_: Request, said: str) -> None:
    with pytest.raises(Refused, match=said):
        choose(CATALOG, free(*rooms), request_)


def test_a_gpu_that_fell_ill_since_is_not_chosen() -> None:
    ill = Catalog((replace(GPUS[0], ill="broken"), *GPUS[1:]), 1)
    assert of(choose(ill, free(20, 80), Request(20, wishes=(GPUS[0].uuid,)))) == {1: 20}
    with pytest.raises(Refused):
        choose(ill, free(20), Request(20))


def test_units_that_are_no_more_are_not_chosen() -> None:
    """The kubelet may still count what was held when the agent began."""
    gone = [name(GPUS[0].code, 80), name("00000009", 0)]
    assert choose(CATALOG, [*gone, *free(2, 3)], Request(2)) == [name(GPUS[0].code, 78), name(GPUS[0].code, 79)]
    assert of(choose(CATALOG, [*gone, *free(2, 3)], Request(3))) == {1: 3}


@given(
    rooms=st.lists(st.integers(0, 80), min_size=4, max_size=4),
    size=st.integers(1, 90),
    wish=st.sampled_from([gpu.uuid for gpu in GPUS] + [""]),
    several=st.booleans(),
)
def test_always(rooms: list[int], size: int, wish: str, several: bool) -> None:
    available = free(*rooms)
    request = Request(size, wishes=(wish,) if wish else (), several=several)
    possible = sum(rooms) >= size if several else max(rooms) >= size
    if not possible:
        with pytest.raises(Refused):
            choose(CATALOG, available, request)
        return
    chosen = choose(CATALOG, available, request)
    assert len(chosen) == len(set(chosen)) == size
    assert set(chosen) <= set(available)
    if max(rooms) >= size:
        (number,) = of(chosen)
        wished = next((n for n, gpu in enumerate(GPUS) if gpu.uuid == wish), None)
        if wished is not None and rooms[wished] >= size:
            assert number == wished
        else:
            assert rooms[number] == min(room for room in rooms if room >= size)
    assert choose(CATALOG, list(reversed(available)), request) == chosen
