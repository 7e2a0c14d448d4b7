# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The story as data: it fits the cluster that it is told in, and its offer fits its pods."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.breakages import BREAKAGES
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.containers import images
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.spec import parse_node
from ansible_collections.colocation.kubernetes.tests.run import demonstration
from ansible_collections.colocation.kubernetes.tests.run.report import CannotGoOn
from ansible_collections.colocation.kubernetes.tests.run.story import chapters, props, readings, workloads
from ansible_collections.colocation.kubernetes.tests.run.story.plays import Played
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key, Timeline

OFFER = yaml.safe_load(Path(chapters.__file__).with_name("offer.yml").read_text())


def test_steps_have_names_of_their_own_and_end_by_a_condition() -> None:
    names = [step.name for step in chapters.STORY]
    assert len(names) == len(set(names))
    assert [step.name for step in chapters.STORY if step.until is None] == ["install"]  # a playbook's own end


def test_the_story_can_be_told_up_to_a_step() -> None:
    assert [step.name for step in demonstration.chapters("batch")] == ["install", "again", "idle", "batch"]
    assert demonstration.chapters() == chapters.STORY
    with pytest.raises(CannotGoOn, match="no step called bath. Steps: install, again"):
        demonstration.chapters("bath")


def test_the_cluster_is_the_one_that_the_story_speaks_of() -> None:
    hot, other = (parse_node(shape) for shape in demonstration.NODES)
    assert (hot.sockets, hot.dies) == (2, 2)
    assert other.far > 0
    assert set(chapters.BROKEN) <= set(BREAKAGES)
    assert {name for names in demonstration.IMAGES.values() for name in names} <= set(images())


def test_the_offer_fits_the_pods() -> None:
    memory = OFFER["device_plugin_resources"]["memory"][readings.MEMORY]
    assert memory["unit_mib"] == workloads.BLOCK_MIB == OFFER["cri_proxy_blocks"]["mib"]
    assert workloads.USED_MIB < workloads.BLOCKS * workloads.BLOCK_MIB
    assert OFFER["device_plugin_reclaim"]["migrate"]["kubeconfig"] == props.MIGRATOR_FILE
    assert list(demonstration.IMAGES) == list(OFFER["scheduler_node_selector"].values())


def test_with_gpus_the_memory_on_offer_is_the_same() -> None:
    with_gpus = yaml.safe_load(Path(chapters.__file__).with_name("offer-gpu.yml").read_text())
    assert with_gpus["device_plugin_resources"]["memory"] == OFFER["device_plugin_resources"]["memory"]
    assert with_gpus["device_plugin_resources"]["gpu"][chapters.GPU]["double_file"] == props.GPU_FILE


def test_batch_pods_that_left_find_no_room_to_come_back_to() -> None:
    """What stays free on the hot node is above the watermark of the reclaim, and its offer too small for a pod."""
    hot = parse_node(demonstration.NODES[0]).memory
    memory = OFFER["device_plugin_resources"]["memory"][readings.MEMORY]
    assert OFFER["device_plugin_reclaim"]["soft_percent"] < chapters.LEFT_FREE * 100
    assert (chapters.LEFT_FREE - memory["watermark"]) * hot < workloads.BLOCKS * workloads.BLOCK_MIB


@pytest.mark.parametrize(("changed", "ok"), [(0, True), (2, False)])
def test_a_second_run_changes_nothing_and_is_compared_with_the_first(changed: int, ok: bool) -> None:
    earlier, first = Played("site.yml", 9.0, (), 9), Played("site.yml", 200.0, (), 40)
    played = [earlier, Played("repair.yml", 9.0, (), 1), first, Played("site.yml", 50.0, (), changed)]
    scene: Any = SimpleNamespace(played=played)
    look = chapters.changed_nothing(scene)
    assert (look.ok, look.seen) == (ok, f"40 changed in 3:20, then {changed} in 0:50, 0.25 of the first run's time")


@pytest.mark.parametrize(
    ("hot", "ok"), [([2, 2, 2, 2], True), ([7, 2, 2, 2, 2], True), ([7, 2, 2, 2], False), ([2], False), ([], False)]
)
def test_the_hot_node_is_hot_for_longer_than_a_moment(hot: list[int], ok: bool) -> None:
    line = Timeline()
    for at, score in enumerate(hot):
        values = {Key("scores", chapters.HOT, "memory"): score, Key("scores", chapters.OTHER, "memory"): 5}
        line.record(float(at), values)
    scene: Any = SimpleNamespace(nodes=[chapters.HOT, chapters.OTHER], series=line.series)
    look = chapters.scored(scene)
    assert look.ok == ok
    assert look.seen.startswith(f"worker1: score {hot[-1]}, " if hot else "worker1: no score yet, ")


def test_places_are_read_from_the_machine() -> None:
    machine = {
        "sockets": [
            {
                "numas": [
                    {
                        "numa": 0,
                        "containers": [{"name": "story/web-3/main", "cpus": "0-3"}],
                        "ccxs": [{"ccx": 1, "containers": [{"name": "story/web-1/main", "cpus": "2-3"}]}],
                    }
                ]
            }
        ]
    }
    assert chapters.places(machine) == {"web-3": "NUMA 0 (CPUs 0-3)", "web-1": "CCX 1 (CPUs 2-3)"}
