# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The memory source on made-up nodes: what it offers, what it takes back, what it says when it can't see."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.device_plugin.made_node import GIB, MIB, MadeNode
from colocation.common.metrics import Registry
from colocation.device_plugin.cgroup_tree import PodTree
from colocation.device_plugin.devices import MOST_MESSAGE, Device, NoSuchDevice, NotReady, too_large
from colocation.device_plugin.holders import Held
from colocation.device_plugin.memory_config import Memory
from colocation.device_plugin.memory_metrics import MemoryMetrics, tables
from colocation.device_plugin.memory_source import MemorySource
from colocation.device_plugin.protocol import encode_devices

RESOURCE = "test.com/colocation-memory"
UID = "0e8d0f3a-9c1b-4d37-8c55-1f2e3d4c5b6a"
NOBODY: frozenset[str] = frozenset()


class Site:
    """A source on a made-up node of 20 GiB, of which 10 GiB are in use; 10 % is the watermark."""

    def __init__(self, place: Path, driver: str = "systemd", **settings: object) -> None:
        self.node = MadeNode(place, driver)
        self.node.memory(20 * GIB, 10 * GIB)
        self.registry = Registry()
        self.settings = Memory(**self.node.settings(**settings))  # type: ignore[arg-type]
        self.tree = PodTree(str(self.node.root))
        self.source = MemorySource(RESOURCE, self.settings, MemoryMetrics(self.registry), str(self.node.root))
        self.holders: tuple[Held, ...] = ()
        self.now = 0.0

    @property
    def held(self) -> frozenset[str]:
        return frozenset(id for held in self.holders for id in held.ids)

    def refresh(self, seconds: float = 10.0) -> list[str]:
        """A refresh later; the IDs on offer."""
        self.now += seconds
        self.tree.refresh(self.now)
        self.source.refresh(self.holders, self.held, self.tree.pods, self.tree.kubepods, self.now)
        return [device.id for device in self.source.devices(self.held)]

    def hold(self, *ids: str, uid: str = UID) -> None:
        self.holders += (Held(RESOURCE, "main", ids, uid, "batch", "job"),)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_seeds_blocks(site: Site) -> None:
    assert site.refresh() == [f"CM-0-{number}" for number in range(16)]  # 20 − 10 − 2 GiB
    assert site.source.link == "colocation-memory.sock"
    assert site.source.options.prefers


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_what_a_holder_uses_of_its_blocks_changes_nothing(tmp_path: Path, driver: str) -> None:
    site = Site(tmp_path, driver)
    before = site.refresh()
    site.hold("CM-0-0", "CM-0-1", "CM-0-2")
    site.node.pod(UID, 1 * GIB, cache=3 * GIB)
    site.node.memory(20 * GIB, 9 * GIB)
    assert sorted(site.refresh()) == sorted(before)


def test_what_it_uses_above_them_is_taken_from_the_offer(site: Site) -> None:
    site.refresh()
    site.hold("CM-0-0")
    site.node.pod(UID, 2 * GIB)
    site.node.memory(20 * GIB, 8 * GIB)
    assert len(site.refresh()) == 16 - 3


def test_blocks_that_an_init_container_left_to_the_next_count_once(site: Site) -> None:
    site.refresh()
    site.hold("CM-0-0")
    site.holders += (Held(RESOURCE, "init", ("CM-0-0",), UID, "batch", "job"),)
    site.node.pod(UID, 2 * GIB)
    site.node.memory(20 * GIB, 8 * GIB)
    assert len(site.refresh()) == 16 - 3  # one block is its right, three are above it


def test_others_pods_are_not_looked_at(site: Site) -> None:
    """Guaranteed, burstable and best-effort pods without blocks are in the machine's figure already."""
    for number, quality in enumerate(("guaranteed", "burstable", "besteffort")):
        site.node.pod(f"{number}{UID[1:]}", GIB, quality=quality)
    assert len(site.refresh()) == 16


def test_a_held_block_stays_and_a_freed_one_goes(site: Site) -> None:
    site.refresh()
    site.hold("CM-0-14", "CM-0-15")
    site.node.memory(20 * GIB, 0)
    assert site.refresh() == ["CM-0-14", "CM-0-15"]
    assert site.source.snapshot is not None
    seen = site.source.snapshot
    assert (seen.target, seen.fits, seen.allocated) == (0, 0, 2)
    site.node.memory(20 * GIB, 10 * GIB)
    assert site.refresh() == ["CM-0-14", "CM-0-15"]
    seen = site.source.snapshot
    assert (seen.target, seen.fits, seen.allocated) == (0, 16, 2), "it was only just needed, and there is enough now"
    site.holders = ()
    assert site.refresh() == []


def test_it_shrinks_at_once_and_grows_late(site: Site) -> None:
    site.refresh()
    site.node.memory(20 * GIB, 8 * GIB)
    assert len(site.refresh()) == 12
    site.node.memory(20 * GIB, 10 * GIB)
    # 300 s of the peak's window, and then 60 s of the cooldown
    offered = [len(site.refresh()) for _round in range(50)]
    assert offered[:30] == [12] * 30
    assert offered[-1] == 15  # 16.0 blocks fit, and half a block is to spare
    assert offered.index(15) == 36


def test_a_fall_of_a_block_is_seen_between_refreshes(site: Site) -> None:
    site.refresh()
    site.node.memory(20 * GIB, 10 * GIB - 511 * MIB)
    assert not site.source.look(site.now + 1)
    site.node.memory(20 * GIB, 10 * GIB - 512 * MIB)
    assert site.source.look(site.now + 2)
    assert site.source.snapshot is not None
    assert site.source.snapshot.available == 10 * GIB - 512 * MIB
    site.refresh(2)
    assert not site.source.look(site.now + 1)


def test_before_the_first_reading_nothing_is_offered(site: Site) -> None:
    with pytest.raises(NotReady, match="not read yet"):
        site.source.devices(NOBODY)
    (site.node.proc / "meminfo").unlink()
    with pytest.raises(NotReady, match="meminfo: No such file"):
        site.refresh()


@pytest.mark.parametrize("content", [None, "", "MemTotal: 1 kB\n", "x" * 100])
def test_what_can_not_be_read_leaves_the_offer_and_is_told(site: Site, content: str | None) -> None:
    before = site.refresh()
    meminfo = site.node.proc / "meminfo"
    meminfo.unlink()
    if content is not None:
        meminfo.write_text(content)
    assert not site.source.look(site.now + 1)
    assert site.refresh() == before
    assert "what is offered stays as it was" in site.source.problem
    site.node.memory(20 * GIB, 10 * GIB)
    assert site.refresh() == before
    assert site.source.problem == ""


def test_a_group_that_goes_while_it_is_read(site: Site) -> None:
    site.hold("CM-0-0")
    pod = site.node.pod(UID, GIB)
    site.tree.refresh(1.0)
    site.node.gone(UID)
    site.source.refresh(site.holders, site.held, {UID: str(pod)}, site.tree.kubepods, 1.0)
    assert site.source.problem == ""
    assert len(site.source.devices(site.held)) == 16
    (pod / "x").mkdir(parents=True)
    (pod / "memory.stat").write_text("half of it")
    assert len(site.refresh()) == 16


def test_a_clock_that_jumps(site: Site) -> None:
    before = site.refresh()
    site.now = 1e9
    assert site.refresh() == before
    site.now = -1e9
    assert site.refresh() == before
    site.node.memory(20 * GIB, 8 * GIB)
    assert len(site.refresh()) == 12


def test_a_container_is_told_its_blocks_and_its_limit(site: Site) -> None:
    site.refresh()
    grant = site.source.grant(["CM-0-0", "CM-0-1", "CM-0-2"])
    assert dict(grant.environment) == {
        "TEST_COM_COLOCATION_MEMORY": "CM-0-0,CM-0-1,CM-0-2",
        "COLOCATION_MEMORY_BYTES": str(1536 * MIB),
    }
    assert dict(grant.annotations) == {
        "colocation-memory/blocks": "CM-0-0,CM-0-1,CM-0-2",
        "colocation-memory/bytes": str(1536 * MIB),
    }
    with pytest.raises(NoSuchDevice, match="no device CM-0-16"):
        site.source.grant(["CM-0-0", "CM-0-16"])


def test_a_block_of_the_list_before_is_still_given(site: Site) -> None:
    """The kubelet may have chosen it a moment before it got the shorter list."""
    site.refresh()
    site.node.memory(20 * GIB, 8 * GIB)
    site.refresh()
    site.source.grant(["CM-0-15"])
    site.node.memory(20 * GIB, 7 * GIB)
    site.refresh()
    with pytest.raises(NoSuchDevice):
        site.source.grant(["CM-0-15"])


def test_withdrawn_blocks_are_shown_as_ill(site: Site) -> None:
    site.refresh()
    site.source.withdrawn = frozenset({"CM-0-3"})
    ill = [device for device in site.source.devices(NOBODY) if not device.healthy]
    assert ill == [Device("CM-0-3", healthy=False)]


def test_the_same_offer_is_the_same_object(site: Site) -> None:
    site.refresh()
    first = site.source.devices(site.held)
    site.refresh()
    assert site.source.devices(site.held) is first


def test_each_numa_node_by_itself(tmp_path: Path) -> None:
    site = Site(tmp_path, per_numa_node=True)
    # node 1 has no processor: memory that hangs on CXL
    site.node.numa({0: (10 * GIB, 4 * GIB), 1: (10 * GIB, 10 * GIB)}, without_cpu=(1,))
    offered = site.refresh()
    assert offered == [f"CM-0-{n}" for n in range(6)] + [f"CM-1-{n}" for n in range(18)]
    hints = {device.numa for device in site.source.devices(NOBODY) if device.id.startswith("CM-1")}
    assert hints == {None}
    site.hold("CM-1-0", "CM-1-1")
    site.node.pod(UID, GIB, node=1)
    site.node.numa({0: (10 * GIB, 4 * GIB), 1: (10 * GIB, 9 * GIB)}, without_cpu=(1,))
    assert sorted(site.refresh()) == sorted(offered)
    # the same pod on the other node than its blocks: there it is a load like any other
    site.node.pod(UID, GIB, node=0)
    site.node.numa({0: (10 * GIB, 3 * GIB), 1: (10 * GIB, 10 * GIB)}, without_cpu=(1,))
    assert len([id for id in site.refresh() if id.startswith("CM-0")]) == 4


def test_a_reserve_is_shared_by_the_nodes(tmp_path: Path) -> None:
    site = Site(tmp_path, per_numa_node=True, reserve_mib=2048, watermark=0.0)
    site.node.numa({0: (30 * GIB, 30 * GIB), 1: (10 * GIB, 10 * GIB)})
    site.refresh()
    assert site.source.snapshot is not None
    assert [zone.target for zone in site.source.snapshot.zones] == [57, 19]


def test_new_settings_keep_what_still_means_the_same(site: Site) -> None:
    site.refresh()
    site.node.memory(20 * GIB, 8 * GIB)
    assert len(site.refresh()) == 12
    site.node.memory(20 * GIB, 10 * GIB)
    site.source.configure(Memory(**site.node.settings(cooldown_seconds=30.0)), str(site.node.root))  # type: ignore[arg-type]
    assert len(site.refresh()) == 12
    site.source.configure(Memory(**site.node.settings(unit_mib=1024)), str(site.node.root))  # type: ignore[arg-type]
    assert len(site.refresh()) == 8


def test_a_list_that_does_not_fit_names_the_unit_that_would(tmp_path: Path) -> None:
    site = Site(tmp_path, unit_mib=1)
    site.node.memory(400 * 1024 * GIB, 300 * 1024 * GIB)
    site.source.refresh((), NOBODY, {}, "", 1.0)
    devices = tuple(Device(f"CM-0-{number}") for number in range(400_000))
    content = encode_devices(devices)
    refused = str(too_large(len(devices), len(content), site.source.larger_unit))
    assert refused.endswith("set unit_mib to 3 or more, on all nodes")
    assert MOST_MESSAGE > 400_000 / 3 * 24


def test_metrics_and_tables(site: Site) -> None:
    site.hold("CM-0-0", "CM-0-1")
    pod = site.node.pod(UID, GIB)
    site.node.pressure(12.5)
    site.refresh()
    site.node.memory(20 * GIB, 8 * GIB)
    site.refresh()
    text = site.registry.render()
    for line in (
        f'colocation_memory_total_bytes{{zone="all"}} {20 * GIB}',
        f'colocation_memory_available_bytes{{zone="all"}} {8 * GIB}',
        f'colocation_memory_online_bytes{{zone="all"}} {11 * GIB}',
        'colocation_memory_held_blocks{zone="all"} 2',
        'colocation_memory_target_blocks{zone="all"} 14',
        'colocation_memory_fitting_blocks{zone="all"} 14',
        'colocation_memory_resizes_total{direction="down"} 1',
        'colocation_memory_resized_blocks_total{direction="down"} 4',
        'colocation_memory_pressure_percent{scope="pods",kind="some"} 12.5',
        "colocation_memory_refresh_seconds_count 2",
    ):
        assert line + "\n" in text
    assert site.source.snapshot is not None
    memory, holders = tables(site.source.snapshot)
    assert memory.rows == (("all", "20.00 GiB", "8.00 GiB", "11.00 GiB", "11.00 GiB", "2.00 GiB", 14, 14, 2, 14),)
    assert holders.rows == (("batch/job", "main", 2, "1.00 GiB", "1.00 GiB", str(pod)),)
