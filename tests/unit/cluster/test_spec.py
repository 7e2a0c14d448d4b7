# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Node shapes as the command line says them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import ClusterError
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.spec import (
    SHAPES,
    NodeSpec,
    parse_node,
    parse_size,
)


def test_settings_replace_what_the_shape_says() -> None:
    spec = parse_node("dhyana,memory=6G,disk=1G,disk=512M,swap=256M,cpus=16")
    assert (spec.shape, spec.memory, spec.disks, spec.swap, spec.cpus) == ("dhyana", 6144, (1024, 512), 256, 16)
    assert (spec.sockets, spec.dies) == (2, 2)
    assert parse_node("plain") == NodeSpec()
    assert parse_node("plain,suite=bookworm") == NodeSpec(suite="bookworm")


@pytest.mark.parametrize("text", ["", "huge", "plain,", "plain,disk", "dhyana,cpus=6", "plain,cpus=0", "plain,disk=1T"])
def test_errors_say_what_can_be_said(text: str) -> None:
    with pytest.raises(ClusterError, match="there are|can't read"):
        parse_node(text)


@given(st.text())
def test_sizes_are_read_or_refused(text: str) -> None:
    try:
        assert parse_size(text) > 0
    except ClusterError as error:
        assert repr(text) in str(error)


@given(st.sampled_from(sorted(SHAPES)), st.integers(1, 999999), st.sampled_from("MG"))
def test_any_memory(shape: str, number: int, unit: str) -> None:
    assert parse_node(f"{shape},memory={number}{unit}").memory == number * (1024 if unit == "G" else 1)
