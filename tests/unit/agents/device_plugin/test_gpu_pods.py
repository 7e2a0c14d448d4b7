# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pods that want units of GPUs, read from what the API says."""

from __future__ import annotations

from typing import Any

import pytest

from colocation.device_plugin.gpu_pods import LAST, Pod, Want, read_pod

RESOURCE = "doslab.io/gpu-memory"


def container(name: str, units: int | str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {RESOURCE: str(units)}}, **more}


def document(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    metadata = {"uid": "u", "namespace": "n", "name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"}
    spec = {"containers": list(containers), "initContainers": list(init)}
    return {"metadata": metadata | more.pop("metadata", {}), "spec": spec, "status": {"phase": "Pending"} | more}


def test_all_that_is_read() -> None:
    annotations = {
        "DOSLAB_IO_GPU_UUID": "GPU-1",
        "DOSLAB_IO_GPU_ASSIGNED": "false",
        "DOSLAB_IO_GPU_ASSUME_TIME": "1700000000000000000",
    }
    found = read_pod(document(container("a", 10), metadata={"annotations": annotations}), RESOURCE)
    created = "2024-01-01T00:00:00Z"
    assert found == Pod("u", "n", "p", (Want("a", 10),), "GPU-1", "false", 1700000000000000000, created)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"phase": "Running"}, (False, False)),
        ({"phase": None}, (True, False)),
        ({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}, (True, True)),
    ],
)
def test_how_it_is(changed: dict[str, Any], expected: tuple[bool, bool]) -> None:
    found = read_pod(document(container("a", 10), **changed), RESOURCE)
    assert found is not None
    assert (found.pending, found.ending) == expected


@pytest.mark.parametrize(
    "other",
    [
        document(container("a", 10), phase="Failed"),
        document(container("a", 10), phase="Succeeded"),
        document({"name": "a"}),
        document({"name": "a", "resources": {"limits": {"cpu": "2"}}}),
        document(container("a", 0)),
        {},
    ],
)
def test_who_wants_nothing(other: dict[str, Any]) -> None:
    assert read_pod(other, RESOURCE) is None


QUANTITIES = [("2k", 2000), ("1Ki", 1024), ("7", 7), ("2M", 2_000_000), ("1e3", 1000), ("12E0", 12), ("0e3", 0)]


@pytest.mark.parametrize(("text", "units"), QUANTITIES)
def test_quantities(text: str, units: int) -> None:
    found = read_pod(document(container("a", text), container("b", 1)), RESOURCE)
    assert found is not None and found.total == units + 1


@pytest.mark.parametrize("text", ["9" * 5000, f"{'9' * 5000}k", "1e5000", "1.5", "-1", "1ki", "²", "many"])
def test_what_is_no_quantity(text: str) -> None:
    assert read_pod(document(container("a", text)), RESOURCE) is None


@pytest.mark.parametrize("time", ["", "soon", "-1", "1e3", "²", "9" * 5000, "1" + "0" * 19])
def test_a_time_that_is_none_comes_last(time: str) -> None:
    found = read_pod(
        document(container("a", 1), metadata={"annotations": {"DOSLAB_IO_GPU_ASSUME_TIME": time}}), RESOURCE
    )
    assert found is not None and found.assumed == LAST


@pytest.mark.parametrize(
    ("init", "containers", "total"),
    [
        ((), (10, 20), 30),
        ((50,), (10, 20), 50),
        ((5,), (10, 20), 30),
        ((50, 60), (10,), 60),
    ],
)
def test_what_a_pod_has_in_all(init: tuple[int, ...], containers: tuple[int, ...], total: int) -> None:
    inits = tuple(container(f"i{n}", units) for n, units in enumerate(init))
    found = read_pod(document(*(container(f"c{n}", units) for n, units in enumerate(containers)), init=inits), RESOURCE)
    assert found is not None and found.total == total


def test_an_init_container_that_stays_counts_like_the_others() -> None:
    inits = (container("sidecar", 7, restartPolicy="Always"), container("once", 10))
    found = read_pod(document(container("main", 2), init=inits), RESOURCE)
    assert found is not None
    assert found.total == 17
    assert [want.passing for want in found.wants] == [False, True, False]
