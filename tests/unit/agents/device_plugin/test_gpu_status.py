# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""GPUs for people and for Prometheus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.metrics import Registry
from colocation.common.status import Status, to_text
from colocation.device_plugin.gpu_status import GpuMetrics, share_bar, tables
from colocation.device_plugin.gpus import Catalog, Gpu
from colocation.device_plugin.holders import Held

A = Gpu("GPU-9b341c59-f96b-ba85-c137-78c3652fea65", 81920, "H100", 0)
B = Gpu("GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841", 40960, "A100", None, "XID 79")
CATALOG = Catalog((A, B), 1024)


def held(pod: str, container: str, code: str, first: int, count: int) -> Held:
    ids = tuple(f"{code}-{number}" for number in range(first, first + count))
    return Held("doslab.io/gpu-memory", container, ids, f"uid-{pod}", "batch" if pod else "", pod)


HOLDERS = (
    held("job-2", "main", "9b341c59", 40, 20),
    held("job-1", "a", "9b341c59", 0, 20),
    held("", "b", "c1e9f249", 0, 10),
)


@pytest.mark.parametrize(
    ("total", "shares", "ill", "expected"),
    [
        (80, [], False, "········"),
        (80, [], True, "××××××××"),
        (80, [("a", 20), ("b", 40)], False, "aabbbb··"),
        (80, [("a", 1), ("b", 1)], False, "ab······"),
        (80, [("a", 80)], False, "aaaaaaaa"),
        (0, [], False, "········"),
    ],
)
def test_bars(total: int, shares: list[tuple[str, int]], ill: bool, expected: str) -> None:
    assert share_bar(total, shares, ill, 8) == expected


@given(st.lists(st.integers(0, 100), max_size=60), st.integers(1, 4000))
def test_a_bar_has_its_width(shares: list[int], total: int) -> None:
    assert len(share_bar(total, [("a", share) for share in shares], False)) == 32


def test_what_people_see() -> None:
    shown = to_text(Status("device-plugin", "1", "", tables=tables(CATALOG, HOLDERS)))
    assert (
        f"  {A.uuid}  H100   0     80.00 GiB  aaaaaaaabbbbbbbb················  40.00 GiB  40.00 GiB  healthy" in shown
    )
    assert (
        f"  {B.uuid}  A100   –     40.00 GiB  cccccccc××××××××××××××××××××××××  10.00 GiB  30.00 GiB  XID 79" in shown
    )
    assert f"  a  batch/job-1  a          {A.uuid}  20.00 GiB" in shown
    assert f"  c  UID uid-     b          {B.uuid}  10.00 GiB" in shown


def test_units_that_an_init_container_passed_on_count_once() -> None:
    holders = (
        held("job-1", "first", "9b341c59", 0, 60),
        held("job-1", "main", "9b341c59", 0, 40),
        held("job-2", "main", "9b341c59", 60, 20),
    )
    gpus, names = tables(CATALOG, holders)
    assert gpus.rows[0][4:7] == ("a" * 24 + "b" * 8, "80.00 GiB", "0.00 GiB")
    assert [row[4] for row in names.rows] == ["60.00 GiB", "40.00 GiB", "20.00 GiB"]
    registry = Registry()
    GpuMetrics(registry).show(CATALOG, holders)
    assert f'colocation_gpu_held_bytes{{gpu="{A.uuid}"}} {80 << 30}\n' in registry.render()


def test_never_less_than_nothing_is_free() -> None:
    """Units from before the unit was made larger are held until their pods end."""
    gpus, _names = tables(CATALOG, (held("job-1", "main", "9b341c59", 0, 100),))
    assert gpus.rows[0][4:7] == ("a" * 32, "100.00 GiB", "0.00 GiB")


def test_what_prometheus_sees() -> None:
    registry = Registry()
    metrics = GpuMetrics(registry)
    metrics.show(CATALOG, HOLDERS)
    text = registry.render()
    assert f'colocation_gpu_held_bytes{{gpu="{A.uuid}"}} {40 << 30}\n' in text
    assert f'colocation_gpu_healthy{{gpu="{B.uuid}"}} 0\n' in text
    metrics.show(Catalog((A,), 1024), ())
    assert B.uuid not in registry.render()
