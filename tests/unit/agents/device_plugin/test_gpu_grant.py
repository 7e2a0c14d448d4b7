# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What containers learn, and what annotations should say."""

from __future__ import annotations

from dataclasses import replace

from colocation.device_plugin.gpu_grant import by_container, grant, notes
from colocation.device_plugin.gpu_pods import Pod, Want
from colocation.device_plugin.gpus import Catalog, Gpu

A = Gpu("GPU-9b341c59-f96b-ba85-c137-78c3652fea65", 81920)
B = Gpu("GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841", 40960)
CATALOG = Catalog((A, B), 32)


def pod(name: str, *units: int, wish: str = "", assigned: str = "") -> Pod:
    return Pod(name, "n", name, tuple(Want(f"c{n}", size) for n, size in enumerate(units)), wish, assigned)


def test_the_seeds_environment() -> None:
    made = grant(CATALOG, (A,), 64, 96, "")
    assert dict(made.environment) == {
        "NVIDIA_VISIBLE_DEVICES": A.uuid,
        "DOSLAB_IO_GPU_UUID": A.uuid,
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD": "3072",
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER": "2048",
        "DOSLAB_IO_GPU_RESOURCE_TOTAL": "81920",
    }
    assert made.cdi == () and not made.annotations


def test_several_gpus_and_their_cdi_names() -> None:
    made = grant(CATALOG, (A, B), 3000, None, "nvidia.com/gpu")
    assert made.environment["NVIDIA_VISIBLE_DEVICES"] == f"{A.uuid},{B.uuid}"
    assert made.environment["DOSLAB_IO_GPU_RESOURCE_TOTAL"] == "122880"
    assert "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD" not in made.environment
    assert made.cdi == (f"nvidia.com/gpu={A.uuid}", f"nvidia.com/gpu={B.uuid}")


def test_containers_by_what_they_hold() -> None:
    held = [(("u", "a"), ["c1e9f249-0", "9b341c59-1"]), (("u", "b"), ["00000000-1"]), (("v", "a"), ["c1e9f249-1"])]
    assert by_container(CATALOG, held) == {("u", "a"): (A.uuid, B.uuid), ("v", "a"): (B.uuid,)}


def written(pods: list[Pod], recorded: dict[tuple[str, str], tuple[str, ...]]) -> list[tuple[str, dict[str, str]]]:
    return [(note.pod.uid, dict(note.annotations)) for note in notes(pods, recorded)]


def true(uuid: str) -> dict[str, str]:
    return {"DOSLAB_IO_GPU_UUID": uuid, "DOSLAB_IO_GPU_ASSIGNED": "true"}


def test_what_is_true_is_not_written_again() -> None:
    assert written([pod("a", 5, wish=A.uuid, assigned="true")], {("a", "c0"): (A.uuid,)}) == []
    assert written([pod("a", 5, wish=A.uuid, assigned="false")], {("a", "c0"): (A.uuid,)}) == [("a", true(A.uuid))]
    assert written([pod("a", 5)], {("a", "c0"): (A.uuid,)}) == [("a", true(A.uuid))]


def test_nothing_is_said_before_all_containers_have_theirs() -> None:
    half = {("a", "c0"): (A.uuid,)}
    assert written([pod("a", 5, 6)], half) == []
    assert written([pod("a", 5, 6)], half | {("a", "c1"): (B.uuid,)}) == [("a", true(f"{A.uuid},{B.uuid}"))]


def test_a_place_is_left_to_who_has_the_same_shape() -> None:
    got = pod("a", 5, wish=B.uuid, assigned="false")
    recorded = {("a", "c0"): (A.uuid,)}
    waits = pod("b", 5, wish=A.uuid, assigned="false")
    assert written([got, waits], recorded) == [("b", {"DOSLAB_IO_GPU_UUID": B.uuid}), ("a", true(A.uuid))]
    others = (
        replace(waits, wants=(Want("c0", 5), Want("c1", 5))),
        replace(waits, wants=(Want("c0", 5, passing=True),)),
        replace(waits, wish=""),
        replace(waits, wish="GPU-of-another-node"),
    )
    for other in others:
        assert written([got, other], recorded) == [("a", true(A.uuid))]


def test_a_place_is_left_to_one_only() -> None:
    pods = [pod("a", 5, wish=B.uuid), *(pod(name, 5, wish=A.uuid) for name in "bc")]
    assert [uid for uid, _notes in written(pods, {("a", "c0"): (A.uuid,)})] == ["b", "a"]
