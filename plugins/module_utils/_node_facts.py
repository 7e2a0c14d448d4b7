# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Facts of a node as preflight needs them: read all at once, carried as JSON, read back on the controller."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import RECORDS, Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer, ask_api
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_cgroup import Cgroup, read_cgroup
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_clock import Clock, read_clock
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import Containerd, read_containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_disk import Disk, read_disks
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    Kubelet,
    read_cluster,
    read_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import Machine, read_machine, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap import read_swap
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import (
    ADMIN_DIRECTORY,
    OTHER_DIRECTORIES,
    Systemd,
    UnitError,
    UnitState,
)

Run = Callable[[list[str]], tuple[int, str, str]]
Ask = Callable[[str, str, float], ApiAnswer]
T = TypeVar("T")

# Units by which another distribution starts a kubelet of its own.
BUNDLES = (
    "snap.kubelet.daemon.service",
    "snap.microk8s.daemon-kubelite.service",
    "snap.k8s.kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
)


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What only a host that runs pods is asked."""

    cgroup: Cgroup
    swap: SwapFacts
    disks: tuple[Disk, ...]
    kubelet: Kubelet
    containerd: Containerd
    api: ApiAnswer | None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    machine: Machine
    clock: Clock
    worker: WorkerFacts | None
    owners: tuple[str, ...] | None  # the parts of this collection of which something stands; None: it can't be told


def read_node(root: str, run: Run, python: str, worker: WorkerFacts | None, state_dirs: Iterable[str]) -> NodeFacts:
    owners = read_owners(root, state_dirs)
    return NodeFacts(machine=read_machine(root, python), clock=read_clock(run), worker=worker, owners=owners)


def read_owners(root: str, state_dirs: Iterable[str]) -> tuple[str, ...] | None:
    """Who wrote what is in the ledgers, and whose agents have a record; None where an entry can't be read."""
    found: set[str] = set()
    for directory in dict.fromkeys(state_dirs):
        place = under(root, directory)
        ledger = Ledger(place)
        found |= {entry.owner for entry in ledger.entries()}
        if ledger.problems:
            return None
        if os.path.isdir(records := os.path.join(place, RECORDS)):
            found |= {name.partition(".")[0] for name in os.listdir(records)}
    return tuple(sorted(found - {""}))


def read_worker(
    root: str, run: Run, disks: Iterable[str], api_timeout: float, containerd_config: str, ask: Ask = ask_api
) -> WorkerFacts:
    bundles = tuple(name for name in BUNDLES if _is_used(_look(root, run, name)))
    kubelet = read_kubelet(root, run, _look(root, run, "kubelet.service"), bundles)
    server, ca_pem = read_cluster(root, (kubelet.kubeconfig, kubelet.bootstrap_kubeconfig))
    return WorkerFacts(
        cgroup=read_cgroup(root),
        swap=read_swap(root, run),
        disks=read_disks(root, disks),
        kubelet=kubelet,
        containerd=read_containerd(root, run, _look(root, run, "containerd.service"), containerd_config),
        api=ask(server, ca_pem, api_timeout) if server else None,
    )


def _look(root: str, run: Run, name: str) -> UnitState | None:
    """The unit's state; nothing where it has no file (systemctl is not even asked) or systemd does not answer."""
    places = (ADMIN_DIRECTORY, *OTHER_DIRECTORIES)
    if not any(os.path.lexists(under(root, os.path.join(place, name))) for place in places):
        return None
    try:
        return Systemd(run, root).look(name)
    except UnitError:
        return None


def _is_used(unit: UnitState | None) -> bool:
    return unit is not None and (unit.running or unit.enabled)


def from_json(kind: type[T], value: Any) -> T:
    """The dataclass that `dataclasses.asdict` was made from; ValueError names the field that does not fit."""
    return typing.cast(T, _convert(kind, value, kind.__name__))


def _convert(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _convert_fields(kind, value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and types.NoneType in arguments:
            return None
        return _convert(next(option for option in arguments if option is not types.NoneType), value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{where}: a list is wanted, not {value!r}")
        return tuple(_convert(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}: a dictionary is wanted, not {value!r}")
        return {str(key): _convert(arguments[1], item, f"{where}[{key}]") for key, item in value.items()}
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted):
        raise ValueError(f"{where}: {kind.__name__} is wanted, not {value!r}")
    return kind(value)


def _convert_fields(kind: type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: a dictionary is wanted, not {value!r}")
    hints = typing.get_type_hints(kind)
    missing = [field.name for field in fields(kind) if field.name not in value]
    if missing:
        raise ValueError(f"{where}: without {', '.join(missing)}")
    return kind(**{f.name: _convert(hints[f.name], value[f.name], f"{where}.{f.name}") for f in fields(kind)})
