# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The parts of the look at a node's health, and their order: what the kubelet is told decides where the others look."""

from __future__ import annotations

import glob
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_page import AskPage, ask_page
from ansible_collections.colocation.kubernetes.plugins.module_utils._checkpoint import CheckpointError, parse_checkpoint
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import (
    SOCKET,
    CriAnswer,
    ask_runtime,
    socket_of,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_agents import read_agents
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import (
    Devices,
    HealthFacts,
    Network,
    NodeObject,
    Processes,
    Service,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_look import Gathering
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_object import read_node_object
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_unit import look_at_unit, read_service
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import KubeletFiles, read_files
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_of, told_name
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer, ask_api
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import read_cgroup
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import read_clock
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import CONFIG, read_containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import read_disks
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import BUNDLES
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    Kubelet,
    read_cluster,
    read_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap import read_swap
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

CNI_DIRECTORY = "/etc/cni/net.d"
CNI_ENDINGS = (".conf", ".conflist", ".json")
CNI_RECORDS = "/var/lib/cni/results"  # one for each pod's network
RECORD_SECONDS = 60.0  # an older one is written to the end
MOST_RECORD = 1 << 20
DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"
REJOIN_MARK = "rejoin.json"  # of the role rejoin, in its state directory
STATE_DIR = "/var/lib/colocation"
DISKS = ("/", "/var/lib/kubelet", "/var/lib/containerd")


@dataclass(frozen=True, slots=True)
class Outside:
    """What is not in the node's files: commands, sockets, the API. Tests put doubles here."""

    run: Run
    ask_api: Callable[[str, str, float], ApiAnswer] = ask_api
    ask_runtime: Callable[[str, float], CriAnswer] = ask_runtime
    ask_node: Callable[[Access, str, float, float, tuple[str, ...] | None], NodeObject] = read_node_object
    now: Callable[[], float] = time.time
    ask_page: AskPage = ask_page


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds."""

    part: float = 20.0
    answer: float = 5.0  # of the API server and the runtime


def look(
    root: str,
    outside: Outside,
    limits: Limits = Limits(),
    containerd_config: str = CONFIG,
    state_dir: str = STATE_DIR,
) -> HealthFacts:
    """One pass over the node; it takes at most twice `limits.part`."""
    run, now = outside.run, outside.now()
    gathering = Gathering()
    gathering.gather(
        {
            "kubelet": lambda: _kubelet(root, run),
            "kubelet_service": lambda: read_service(root, run, "kubelet.service"),
            "files": lambda: read_files(root, now),
            "containerd": lambda: read_containerd(root, run, None, containerd_config),
            "containerd_service": lambda: read_service(root, run, "containerd.service"),
            "network": lambda: read_network(root, now),
            "swap": lambda: read_swap(root, run),
            "cgroup": lambda: read_cgroup(root),
            "disks": lambda: read_disks(root, DISKS),
            "processes": lambda: read_processes(root),
            "clock": lambda: read_clock(run),
            "devices": lambda: read_devices(root),
            "agents": lambda: read_agents(root, run, outside.ask_page),
            "rejoin": lambda: read_text(root, os.path.join(state_dir, REJOIN_MARK)).strip(),
        },
        limits.part,
    )
    gathering.gather(_second(root, outside, limits, gathering, now), limits.part)
    values = gathering.values
    api, asked = values.pop("api", (None, None))
    return HealthFacts(now=now, blind=gathering.blind, api=api, api_asked=asked, **values)


def _second(
    root: str, outside: Outside, limits: Limits, first: Gathering, now: float
) -> dict[str, Callable[[], object]]:
    """The parts that need to know the kubelet's endpoint and kubeconfig."""
    kubelet: Kubelet | None = first.values.get("kubelet")
    files: KubeletFiles | None = first.values.get("files")
    service: Service | None = first.values.get("containerd_service")
    parts: dict[str, Callable[[], object]] = {}
    endpoint = socket_of(kubelet.runtime_endpoint) if kubelet else ""
    own = endpoint if "containerd" in endpoint else SOCKET
    if service and service.unit and service.unit.active == "active":
        parts["runtime"] = lambda: outside.ask_runtime(under(root, own), limits.answer)
    if endpoint and endpoint != own:
        parts["endpoint"] = lambda: outside.ask_runtime(under(root, endpoint), limits.answer)
    server, authority = _cluster(root, kubelet, files)
    if server:
        parts["api"] = lambda: _ask_api(outside, server, authority, limits.answer)
    if files and files.access:
        known = node_of(files.current.user) if files.by_certificate else ""
        name = known or told_name(kubelet.hostname_override if kubelet else "")
        devices: Devices | None = first.values.get("devices")
        registered = devices.registered if devices and not devices.checkpoint_problem else None
        since = _since(first.values.get("kubelet_service"), now)
        access = files.access
        parts["node"] = lambda: outside.ask_node(access, name, since, limits.answer, registered)
    return parts


def _cluster(root: str, kubelet: Kubelet | None, files: KubeletFiles | None) -> tuple[str, str]:
    """Address and authority, by the kubelet's own kubeconfigs, else by others of the node."""
    paths = (kubelet.kubeconfig, kubelet.bootstrap_kubeconfig) if kubelet else ()
    server, authority = read_cluster(root, paths)
    if server or not files:
        return server, authority
    return next(iter(files.servers), ("", ""))


def _ask_api(outside: Outside, server: str, authority: str, timeout: float) -> tuple[ApiAnswer, tuple[float, float]]:
    before = outside.now()
    answer = outside.ask_api(server, authority, timeout)
    return answer, (before, outside.now())


def _since(service: Service | None, now: float) -> float:
    """From when on a sign of life counts: a lease is renewed every ten seconds, and lost after forty."""
    recent = now - 60
    if service is None or service.up_for is None or service.unit is None or not service.unit.crashes:
        return recent
    return max(recent, now - service.up_for)


def _kubelet(root: str, run: Run) -> Kubelet:
    units = (look_at_unit(root, run, name) for name in BUNDLES)
    bundles = tuple(unit.name for unit in units if unit and (unit.running or unit.enabled))
    return read_kubelet(root, run, None, bundles)


def read_network(root: str, now: float, directory: str = CNI_DIRECTORY) -> Network:
    """The files that a runtime would read, it takes the first; and records that it can't read."""
    place = under(root, directory)
    names = sorted(name for name in _listed(place) if name.endswith(CNI_ENDINGS))
    problem = ""
    if names:
        try:
            with open(os.path.join(place, names[0]), "rb") as file:
                json.loads(file.read())
        except (OSError, ValueError, RecursionError) as error:
            problem = f"{os.path.join(directory, names[0])} is not JSON: {error}"
    records = (os.path.join(CNI_RECORDS, name) for name in sorted(_listed(under(root, CNI_RECORDS))))
    broken = tuple(record for record in records if _is_broken(under(root, record), now))
    return Network(directory, tuple(names), problem, broken)


def _is_broken(path: str, now: float) -> bool:
    """Cut by a power loss or a full disk: they are not synced to the disk, nor replaced as a whole."""
    try:
        young = now - os.path.getmtime(path) < RECORD_SECONDS
        if not os.path.isfile(path) or young or os.path.getsize(path) > MOST_RECORD:
            return False
        with open(path, "rb") as file:
            return not isinstance(json.loads(file.read()), dict)
    except (ValueError, RecursionError):
        return True
    except OSError:
        return False


def read_processes(root: str) -> Processes:
    """Threads of the whole node, as the kernel counts them against kernel.pid_max and kernel.threads-max."""
    tasks = read_text(root, "/proc/loadavg").split()[3].partition("/")[2]
    limits = [read_text(root, f"/proc/sys/kernel/{name}").strip() for name in ("pid_max", "threads-max")]
    return Processes(int(tasks), min(int(limit) for limit in limits if limit))


def read_devices(root: str) -> Devices:
    """Sockets that nobody serves any more, and the kubelet's checkpoint."""
    place = under(root, DEVICE_PLUGINS)
    path = os.path.join(place, "kubelet_internal_checkpoint")
    dead = tuple(os.path.basename(found) for found in _dead_sockets(place))
    try:
        with open(path, "rb") as file:
            checkpoint = parse_checkpoint(file.read())
    except FileNotFoundError:
        return Devices(dead, "", ())
    except (OSError, CheckpointError) as problem:
        return Devices(dead, f"{DEVICE_PLUGINS}/{os.path.basename(path)}: {problem}", ())
    registered = tuple(sorted(checkpoint.registered))
    if not checkpoint.intact:
        words = f"its checksum is {checkpoint.checksum}, that of its data is {checkpoint.computed}"
        return Devices(dead, f"{DEVICE_PLUGINS}/{os.path.basename(path)}: {words}", registered)
    return Devices(dead, "", registered)


def _dead_sockets(directory: str) -> Iterator[str]:
    """Sockets that refuse a connection, and links that lead nowhere; the kubelet's own tells nothing new."""
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*"))):
        if os.path.basename(path) == "kubelet.sock":
            continue
        try:
            if not os.path.exists(path) or (stat.S_ISSOCK(os.stat(path).st_mode) and _refuses(path)):
                yield path
        except OSError:
            continue


def _refuses(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1)
        try:
            caller.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:  # a full queue, a path that is too long: somebody may be there
            return False
    return False


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
