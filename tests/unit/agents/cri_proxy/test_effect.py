# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where the effect of placement is measured, and that it is measured."""

from __future__ import annotations

import os

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, Made, machine
from colocation.cri_proxy import effect
from colocation.cri_proxy.effect import Effect, NoEffect, Seats


@pytest.mark.parametrize("name", [name for name, made in MACHINES.items() if made.ccxs > 1 and made.l3 == "ccx"])
def test_processes_are_on_cores_of_one_ccx_or_of_two_neighbours(name: str) -> None:
    found = machine(name)
    of = {cpu: ccx for ccx in found.ccxs for cpu in range(found.online.bit_length()) if ccx.cpus >> cpu & 1}
    core = {
        cpu: core for ccx in found.ccxs for core in ccx.cores for cpu in range(core.bit_length()) if core >> cpu & 1
    }
    where = effect.seats(found)
    assert of[where.together[0]] is of[where.together[1]]
    assert core[where.together[0]] != core[where.together[1]]
    assert of[where.apart[0]] is not of[where.apart[1]]
    assert of[where.apart[0]].numa == of[where.apart[1]].numa  # as near as can be, so that only the cache differs
    assert where.kib == of[where.apart[0]].cache_kib or where.kib == effect.USUAL_KIB


@pytest.mark.parametrize("made", [Made(cores=4), Made(cores=1), Made(ccxs=4, cores=1, threads=2)], ids=str)
def test_a_machine_with_nothing_to_compare_says_so(made: Made) -> None:
    with pytest.raises(NoEffect, match="machine"):
        effect.seats(machine(made))


def test_it_is_measured() -> None:
    """On any CPUs that this machine has; whose cache is whose is not looked at."""
    cpus = sorted(os.sched_getaffinity(0))
    where = Seats((cpus[0], cpus[-1]), (cpus[0], cpus[-1]), 64)
    found = effect.measure(where, rounds=1, seconds=0.01)
    assert min(found.alone, found.apart, found.together) > 0
    assert f"{effect.gain(Effect(2.0, 3.0, 2.0)):.2f} times" in effect.told(where, Effect(2.0, 3.0, 2.0))


def test_a_cpu_that_can_not_be_used_is_named() -> None:
    nowhere = 4093
    with pytest.raises(OSError, match="4093"):
        effect.measure(Seats((nowhere, nowhere), (nowhere, nowhere), 64), rounds=1, seconds=0.01)
