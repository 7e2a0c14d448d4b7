# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Places on known machines, by the table and by what must hold for any machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, Made, machine
from colocation.cri_proxy.cpus import parse, show, union
from colocation.cri_proxy.ledger import Entry, Ledger, Who
from colocation.cri_proxy.placement import Choice, Layout, Loads, Shape, Want, choose, memory_nodes, stay, stay_alone


def layout(name: Made | str, reserved: str = "") -> Layout:
    return Layout.of(machine(name), parse(reserved))


def place(where: Layout, cpus: float, **more: object) -> Choice:
    found = choose(where, Loads.none(len(where.ccx_cpus)), Want(round(cpus * 1000), **more))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "cpus", "shape", "expected"),
    [
        ("hygon-c86", 0, Shape.CCX, "0-3,32-35"),
        ("hygon-c86", 1, Shape.CCX, "0-3,32-35"),
        ("hygon-c86", 8, Shape.CCX, "0-3,32-35"),
        ("hygon-c86", 8.001, Shape.NUMA, "0-7,32-39"),
        ("hygon-c86", 16, Shape.NUMA, "0-7,32-39"),
        ("hygon-c86", 17, Shape.NUMA_CCX, "0-11,32-43"),
        ("hygon-c86", 24, Shape.NUMA_CCX, "0-11,32-43"),
        ("hygon-c86", 25, Shape.TWO_NUMA, "0-15,32-47"),
        ("hygon-c86", 32, Shape.TWO_NUMA, "0-15,32-47"),
        ("hygon-c86", 33, Shape.MACHINE, "0-63"),
        ("hygon-c86", 64, Shape.MACHINE, "0-63"),
        ("hygon-c86", 65, Shape.MACHINE, "0-63"),
        ("hygon-7185", 16, Shape.NUMA, "0-7,64-71"),
        ("hygon-7185", 32, Shape.TWO_NUMA, "0-15,64-79"),
        ("hygon-7185", 33, Shape.SOCKET, "0-31,64-95"),
        ("hygon-7185", 64, Shape.SOCKET, "0-31,64-95"),
        ("hygon-7185", 65, Shape.MACHINE, "0-127"),
        ("rome-nps1", 9, Shape.NUMA, "0-63,128-191"),
        ("rome-nps1", 136, Shape.NUMA_CCX, "0-67,128-195"),
        ("rome-nps1", 137, Shape.TWO_NUMA, "0-255"),
        ("rome-nps4", 9, Shape.NUMA, "0-15,128-143"),
        ("rome-nps4", 40, Shape.NUMA_CCX, "0-19,128-147"),
        ("milan", 16, Shape.CCX, "0-7,128-135"),
        ("genoa", 16, Shape.CCX, "0-7,192-199"),
        ("genoa", 48, Shape.NUMA, "0-23,192-215"),
        ("vm-without-l3", 8, Shape.CCX, "0-7"),
        ("vm-without-l3", 9, Shape.TWO_NUMA, "0-15"),
        ("intel", 56, Shape.CCX, "0-27,56-83"),
        ("intel", 57, Shape.TWO_NUMA, "0-111"),
        ("intel-snc2", 28, Shape.CCX, "0-13,56-69"),
        ("one-cpu", 0, Shape.CCX, "0"),
        ("one-cpu", 4, Shape.MACHINE, "0"),
    ],
)
def test_the_table_on_an_empty_machine(name: str, cpus: float, shape: Shape, expected: str) -> None:
    found = place(layout(name), cpus)
    assert (found.shape, show(found.cpus)) == (shape, expected)


@pytest.mark.parametrize("name", MACHINES)
def test_every_count_gets_the_smallest_shape_that_is_large_enough(name: str) -> None:
    """The table once more, from the machine's plain counts, for 0 to all CPUs."""
    where, made = layout(name), MACHINES[name]
    ccxs = len(where.ccx_cpus) // len(where.numas)
    numa = made.cpus // len(where.numas)
    ccx, socket = numa // ccxs, made.cpus // made.sockets
    for count in range(made.cpus + 1):
        found = place(where, count)
        size = found.cpus.bit_count()
        if count <= ccx:
            assert size == ccx
        elif count <= numa:
            assert size == numa
        elif count <= numa + ccx and len(where.numas) > 1:
            assert size == numa + ccx
        elif count <= 2 * numa and len(where.numas) > 1:
            assert size == 2 * numa
        elif count <= socket:
            assert size == socket
        else:
            assert size == made.cpus
        assert found.cpus == where.cpus_of(found.ccxs)


def test_the_extra_ccx_and_the_second_node_are_the_nearest() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[0:4] = [1_000_000] * 4  # the first socket is fuller
    found = choose(where, loads, Want(20_000))
    assert found is not None and show(found.cpus) == "16-27,48-59"
    # Crossing sockets would be emptier than any pair within one, and is not taken.
    loads.booked[:] = [0, 0, 9_000_000, 9_000_000, 0, 0, 9_000_000, 9_000_000]
    found = choose(where, loads, Want(30_000))
    assert found is not None and found.ccxs in ((0, 1, 2, 3), (4, 5, 6, 7))


def test_the_emptiest_of_equals_is_taken() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[:] = [3, 3, 3, 2, 3, 1, 3, 3]
    assert choose(where, loads, Want(1000)).ccxs == (5,)  # type: ignore[union-attr]


def test_room_goes_before_everything() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[:] = [7_500_000] * 8
    loads.booked[6] = 7_000_000
    found = choose(where, loads, Want(1000, near=1, devices=1))
    assert found is not None and found.ccxs == (6,)


def test_devices_come_before_the_pods_other_containers_and_these_before_the_load() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[:] = [1_000_000] * 8
    assert choose(where, loads, Want(1000, near=0b0001, devices=0b0100)).ccxs == (4,)  # type: ignore[union-attr]
    loads.booked[2:4] = [2_000_000, 3_000_000]
    assert choose(where, loads, Want(1000, near=0b0010)).ccxs == (2,)  # type: ignore[union-attr]


def test_a_full_neighbourhood_is_left_for_the_next_nearest() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[:2] = [8_000_000, 8_000_000]
    found = choose(where, loads, Want(1000, near=0b0001))
    assert found is not None and found.ccxs == (2,)  # same socket, not merely anywhere


def test_hints_that_name_no_node_here_do_no_harm() -> None:
    assert place(layout("hygon-c86"), 1, near=1 << 40, devices=1 << 63).ccxs == (0,)


def test_batch_stays_away_from_online_and_online_from_batch() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.booked[0], loads.shared[0] = 4_000_000, 1  # online
    loads.booked[1], loads.shared[1], loads.batch[1] = 100_000, 1, 1
    for index in range(2, 8):
        loads.booked[index], loads.shared[index] = 500_000, 1
    assert choose(where, loads, Want(0, batch=True)).ccxs == (1,)  # type: ignore[union-attr]
    assert choose(where, loads, Want(1000)).ccxs == (2,)  # type: ignore[union-attr]
    assert choose(where, loads, Want(1000), apart=False).ccxs == (1,)  # type: ignore[union-attr]


def test_where_online_is_everywhere_batch_goes_to_the_emptiest() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    loads.shared[:] = [1] * 8
    loads.booked[:] = [3_000_000] * 8
    loads.booked[5] = 1_000_000
    assert choose(where, loads, Want(0, batch=True)).ccxs == (5,)  # type: ignore[union-attr]


def test_reserved_isolated_and_offline_cpus_are_no_ones() -> None:
    made = Made(sockets=2, numas=2, ccxs=2, threads=2, offline="8,40", isolated="12-15")
    where = layout(made, reserved="0,32")
    assert show(where.places[Shape.CCX][0].cpus) == "1-3,33-35"
    assert show(place(where, 8).cpus) == "4-7,36-39"  # the first CCX is too small now
    assert show(place(where, 60).cpus) == "1-7,9-11,16-31,33-39,41-63"
    taken = union(place.cpus for places in where.places for place in places)
    assert not taken & parse("0,32,8,40,12-15")


def test_a_machine_without_a_cpu_to_give_has_no_place() -> None:
    where = layout("one-cpu", reserved="0")
    assert choose(where, Loads.none(1), Want(0)) is None


def test_a_shape_can_be_wanted_by_name() -> None:
    where = layout("hygon-7185")
    assert place(where, 1, shape=Shape.SOCKET).shape is Shape.SOCKET
    assert place(where, 64, shape=Shape.CCX).cpus.bit_count() == 8


def test_a_place_is_kept_while_it_could_be_given() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    assert stay(where, loads, Want(1000), (5,)) == Choice(Shape.CCX, (5,), parse("20-23,52-55"))
    assert stay(where, loads, Want(9000), (5,)) is None
    large = place(where, 20).ccxs
    assert stay(where, loads, Want(24_000), large) is not None
    assert stay(where, loads, Want(8000), large) is None  # it would get one CCX
    assert stay(where, loads, Want(20_000), (0, 1, 4)) is None  # farther than need be
    assert stay(where, loads, Want(99_000), tuple(range(8))) is not None
    assert stay(where, loads, Want(1000, shape=Shape.NUMA), (2, 3)) is not None
    assert stay(where, loads, Want(1000), (2, 3)) is None
    assert stay(where, loads, Want(1000), ()) is None


def test_cpus_are_kept_alone_while_nobody_else_holds_them() -> None:
    where = layout("hygon-c86", reserved="0")
    loads = Loads.none(8)
    assert stay_alone(where, loads, Want(2000, alone=2), parse("1,33")) == Choice(Shape.CCX, (0,), *[parse("1,33")] * 2)
    assert stay_alone(where, loads, Want(2000, alone=2), parse("1,63")) is not None
    assert stay_alone(where, loads, Want(2000, alone=2), parse("1-3")) is None
    assert stay_alone(where, loads, Want(2000, alone=2), parse("0-1")) is None
    loads.held = parse("33")
    assert stay_alone(where, loads, Want(2000, alone=2), parse("1,33")) is None


def test_exclusive_containers_hold_whole_cores_and_leave_others_one() -> None:
    where = layout("hygon-c86")
    loads = Loads.none(8)
    first = place(where, 4, alone=4)
    assert show(first.alone) == "0-1,32-33" and first.cpus == first.alone
    loads.shared[:], loads.booked[:] = [1] * 8, [2_500_000] * 8
    kept = choose(where, loads, Want(5000, alone=5))
    assert kept is not None and kept.alone.bit_count() == 5 and len(kept.ccxs) == 1
    loads.booked[:] = [3_500_000] * 8  # five are no more to be had in one CCX, in a NUMA node they are
    wide = choose(where, loads, Want(5000, alone=5))
    assert wide is not None and wide.alone.bit_count() == 5 and len(wide.ccxs) == 2


def test_exclusive_containers_for_which_there_is_no_room_share() -> None:
    where = layout("hygon-c86")
    found = place(where, 64, alone=64)
    assert not found.alone and found.shape is Shape.MACHINE
    small = layout("one-cpu")
    assert not place(small, 1, alone=1).alone


COUNTS = st.integers(0, 300_000)
NAMES = st.sampled_from(sorted(MACHINES))


def who(number: int) -> Who:
    return Who(f"s{number}", f"u{number}", "default", f"pod{number}", "main")


@given(NAMES, st.lists(st.tuples(COUNTS, st.booleans(), st.integers(0, 3)), max_size=40), st.data())
def test_whatever_comes_and_goes_places_are_whole_and_nothing_is_held_twice(
    name: str, wishes: list[tuple[int, bool, int]], data: st.DataObject
) -> None:
    where = layout(name)
    ledger = Ledger(where)
    whole = {place.cpus for places in where.places for place in places}
    for number, (milli, batch, kind) in enumerate(wishes):
        want = Want(milli, batch, alone=milli // 1000 if kind == 0 else 0)
        found = choose(where, ledger.loads, want)
        assert found is not None
        assert found.alone or where.cpus_of(found.ccxs) in whole
        assert found.alone.bit_count() in (0, milli // 1000)
        assert not found.alone & ledger.loads.held
        ledger.put(str(number), Entry(who(number), milli, found.shape, found.ccxs, found.alone, batch))
        for _key, entry in ledger.items():
            cpus = ledger.cpus(entry)
            assert cpus and not cpus & ~where.usable
            assert entry.alone or cpus == where.cpus_of(entry.ccxs) & ~ledger.loads.held
        if kind == 3:
            ledger.drop(data.draw(st.sampled_from([key for key, _entry in ledger.items()])))
    for key in [key for key, _entry in ledger.items()]:
        ledger.drop(key)
    assert ledger.loads == Loads.none(len(where.ccx_cpus))


@given(NAMES, st.integers(0, 16_000), st.integers(1, 120))
def test_equal_containers_differ_by_one_at_most_among_equal_ccxs(name: str, milli: int, count: int) -> None:
    where = layout(name)
    ledger = Ledger(where)
    for number in range(count):
        found = choose(where, ledger.loads, Want(milli))
        assert found is not None
        ledger.put(str(number), Entry(who(number), milli, found.shape, found.ccxs))
        if found.shape is Shape.CCX:
            assert max(ledger.loads.shared) - min(ledger.loads.shared) <= 1


@pytest.mark.parametrize(
    ("made", "numas", "gib", "expected"),
    [
        ("hygon-c86", 0b0001, 0, 0b0001),
        ("hygon-c86", 0b0001, 64, 0b0001),
        ("hygon-c86", 0b0001, 65, 0b0011),
        ("hygon-c86", 0b0100, 100, 0b1100),
        ("hygon-c86", 0b0001, 1000, 0b1111),
        (Made(sockets=2, memory_gib=0), 0b01, 0, 0),
        (Made(sockets=2, memory_nodes=1), 0b01, 65, 0b011),
    ],
)
def test_memory_comes_from_the_nearest_nodes_that_hold_the_limit(
    made: Made | str, numas: int, gib: int, expected: int
) -> None:
    assert memory_nodes(machine(made), numas, gib << 30) == expected
