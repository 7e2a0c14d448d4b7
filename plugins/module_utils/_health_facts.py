# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is known of a node when its health is judged: values, gathered by `_health_look`, judged without another look.

A part that could not be looked at, because it hangs or is broken in a way that nobody foresaw, is None, and `blind`
says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import Condition, CriAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import KubeletFiles
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import Cgroup
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import Clock
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import Containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import Disk
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import Kubelet
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

YOUNG = 60.0  # seconds; a service that systemd started again by itself is not trusted before


@dataclass(frozen=True, slots=True)
class Service:
    """A unit over time: since when it is up, and what it said last where it is not well."""

    unit: UnitState | None  # None: no unit file
    up_for: float | None = None  # seconds
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class Processes:
    count: int
    limit: int


@dataclass(frozen=True, slots=True)
class Network:
    """What stands in the directory of CNI's configuration, and what CNI noted of pods' networks."""

    directory: str
    files: tuple[str, ...]  # those that the runtime would read, in its order
    problem: str  # of the first; empty: it is JSON
    broken_records: tuple[str, ...] = ()  # files without which a network would be ended, and with which it is not


@dataclass(frozen=True, slots=True)
class Devices:
    """The directory of the device plugins."""

    dead_sockets: tuple[str, ...]
    checkpoint_problem: str
    registered: tuple[str, ...]  # resources, by the checkpoint


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of an agent's status."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | bool | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What an agent says of itself."""

    url: str
    problem: str = ""  # why nothing is known; empty: here it is
    version: str = ""
    summary: str = ""
    problems: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    tables: tuple[PageTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """One of our agents: its unit, whether its release can run under the node's Python, and its own words."""

    service: Service
    release: str
    made_for: str  # Python minor; empty: there is no release
    interpreter: str
    python: str  # minor of that interpreter; empty: it can't be run
    kept: str  # an interpreter of the minor that the release is made for; empty: none is left
    page: Page | None = None  # None: it is not up, or its configuration does not tell where it answers


@dataclass(frozen=True, slots=True)
class NodeObject:
    """The Node in the API, as its own kubelet sees it."""

    name: str
    status: int  # of HTTP; 0: no answer
    problem: str  # empty: here it is
    readiness: Readiness | None = None
    conditions: tuple[Condition, ...] = ()
    cordoned: bool = False
    rejoining: bool = False  # cordoned, or made, by a rejoin that has not ended
    leftovers: tuple[str, ...] = ()  # extended resources that no device plugin stands behind, with their count


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """One look at a node."""

    now: float
    blind: dict[str, str]  # part: why it could not be looked at
    kubelet: Kubelet | None = None
    kubelet_service: Service | None = None
    files: KubeletFiles | None = None
    containerd: Containerd | None = None
    containerd_service: Service | None = None
    runtime: CriAnswer | None = None  # containerd's own socket
    endpoint: CriAnswer | None = None  # the kubelet's, where it is another
    network: Network | None = None
    swap: SwapFacts | None = None
    cgroup: Cgroup | None = None
    disks: tuple[Disk, ...] = ()
    processes: Processes | None = None
    clock: Clock | None = None
    api: ApiAnswer | None = None
    api_asked: tuple[float, float] | None = None  # the node's clock before and after
    node: NodeObject | None = None
    devices: Devices | None = None
    agents: tuple[Agent, ...] = ()
    rejoin: str = ""  # the mark of a rejoin that is under way, or was killed
