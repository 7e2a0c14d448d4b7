# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The unit that the role chooses, against what the agents of the nodes take."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.filter import gpu_unit
from colocation.device_plugin.gpus import Catalog, Gpu, complaint, least_unit

UNIT = gpu_unit.FilterModule().filters()["gpu_unit"]


@pytest.mark.parametrize(
    ("nodes", "several", "unit"),
    [
        ([], False, 1),
        ([[]], False, 1),
        ([[16384]], False, 4),
        ([[16384], [81920] * 8, [40960, 40960]], False, 32),
        ([[16384], [81920] * 8], True, 256),
        ([["16384"]], False, 4),
    ],
)
def test_units(nodes: list[list[int]], several: bool, unit: int) -> None:
    assert UNIT(nodes, several) == unit


@given(st.lists(st.lists(st.integers(1024, 200_000), min_size=1, max_size=16), min_size=1, max_size=6), st.booleans())
def test_every_agent_takes_it_and_the_largest_would_name_it(nodes: list[list[int]], several: bool) -> None:
    unit = UNIT(nodes, several)
    for memories in nodes:
        gpus = tuple(Gpu(f"GPU-{number}", memory) for number, memory in enumerate(memories))
        assert not complaint(Catalog(gpus, unit), several)
    assert unit == max(least_unit(memories, several) for memories in nodes)


def test_what_is_no_list() -> None:
    with pytest.raises(AnsibleFilterError, match="no list of the GPUs"):
        UNIT([["much"]])
