# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the story reads is what the agents say: their own code writes it here."""

from __future__ import annotations

import datetime
import json

from ansible_collections.colocation.kubernetes.tests.run.story import chapters, readings, workloads
from ansible_collections.colocation.kubernetes.tests.run.story.page import Happened
from ansible_collections.colocation.kubernetes.tests.run.story.timeline import Key
from ansible_collections.colocation.kubernetes.tests.run.story.watching import happened
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import machine
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import cluster, measure, pod
from colocation.common import events
from colocation.common.metrics import Registry
from colocation.common.status import Status, to_json
from colocation.cri_proxy import picture
from colocation.cri_proxy.cpus import parse
from colocation.device_plugin import COMPONENT, memory_metrics
from colocation.device_plugin.memory_metrics import MemoryMetrics
from colocation.device_plugin.memory_snapshot import MemorySnapshot, Zone
from colocation.scheduler.explain import explain, to_table

GIB = 1 << 30
ZONES = (Zone(0, 2 * GIB, GIB, GIB, GIB, 0, 0, 12, 6, 12), Zone(1, 2 * GIB, 2 * GIB, GIB // 2, 0, 0, 0, 30, 0, 30))
SNAPSHOT = MemorySnapshot(0, 0, 64 << 20, 4 * GIB, 3 * GIB, 0, 0, 42, 6, 42, ZONES, ())


def test_online_use_is_in_the_metrics() -> None:
    registry = Registry()
    MemoryMetrics(registry).show(SNAPSHOT)
    assert readings.of_agent("a", registry.render()) == {Key("memory", "a", "online"): 1.5}


def test_zones_are_on_the_device_plugins_page() -> None:
    status = Status("device-plugin", "1", "", tables=memory_metrics.tables(SNAPSHOT))
    assert readings.zones(json.loads(to_json(status))) == [
        "NUMA 0: 2.00 GiB, 1.00 GiB available, 12 blocks of 64 MiB offered",
        "NUMA 1: 2.00 GiB, 2.00 GiB available, 30 blocks of 64 MiB offered",
    ]


def test_scores_are_on_the_extenders_page() -> None:
    model = cluster("a b")
    measure(model, 10.0, a=0.2, b=0.9)
    found = explain(model, workloads.PROFILE, model.need_of(pod("", scheduler=workloads.PROFILE)), 11.0, model.nodes)
    table = to_table(f"{workloads.PROFILE}: the 2 fullest of 2 nodes", found)
    scores = readings.of_extender(json.loads(to_json(Status("extender", "1", "", tables=(table,)))), workloads.PROFILE)
    assert set(scores) == {Key("scores", "a", "memory"), Key("scores", "b", "memory")}
    assert scores[Key("scores", "b", "memory")] < scores[Key("scores", "a", "memory")]


def test_places_are_in_the_proxys_topology() -> None:
    shown = [
        picture.Shown("story/web-1/main", parse("0-3,32-35"), 1, "online"),
        picture.Shown("story/web-3/main", parse("8-15,40-47"), 3, "online"),
        picture.Shown("default/other/main", parse("4,36"), 2, "online"),
    ]
    machine_as_json = json.loads(picture.to_json(machine("hygon-c86"), shown))
    assert chapters.places(machine_as_json) == {"web-1": "CCX 0 (CPUs 0-3,32-35)", "web-3": "NUMA 1 (CPUs 8-15,40-47)"}


def test_events_come_from_the_component_that_is_listened_to() -> None:
    now = datetime.datetime.fromtimestamp(100, datetime.timezone.utc)
    about = events.About("Pod", "batch-1", "uid", "story")
    event = events.document(about, events.Source(COMPONENT, "worker1"), "ColocationMigrated", "why", now)
    event["metadata"]["uid"] = "1"
    key, heard = happened(event, began=90) or ("", None)
    assert key == "1 1"
    assert heard == Happened(10, "worker1", "ColocationMigrated", "batch-1: why")
    assert happened(event, began=200) is None  # of an earlier telling
    assert happened({**event, "source": {"component": "kubelet"}}, began=90) is None
