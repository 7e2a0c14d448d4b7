# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is left to do until a node has rejoined, from what is recorded in the cluster and what is seen. Pure.

A run may be killed anywhere, and a machine may restart in the middle, with its old identity still on disk. So no step
counts as done because a run once did it: each run looks again, at the Node and at the host, and `steps_left` says what
is left. What can't be seen is recorded: the saved state, under the number of one operation, before the first change;
the same number in a mark on the host, once nothing of the old identity is left there; and in an annotation of the Node
that we made. Where these agree, work is not done twice; where they don't, the longer way is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

DRAIN, STOP, DELETE, RESET, PREPARE, JOIN = "drain", "stop", "delete", "reset", "prepare", "join"
RESTORE, AGENTS, FINISH = "restore", "agents", "finish"
STEPS = (DRAIN, STOP, DELETE, RESET, PREPARE, JOIN, RESTORE, AGENTS, FINISH)
SAVED, DRAINED, UNDONE = "saved", "drained", "undone"  # phases beside the steps
REJOINING = "colocation.kubernetes/rejoining"  # the annotation of a Node that we made; its value is the operation
DRAINING = "colocation.kubernetes/draining"  # of a Node that we cordoned, and that is to go; its value is the operation
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
VERSION = 1
Document = dict[str, Any]


class RejoinRefused(Exception):
    """This node is not rejoined, or not now; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of the host that has to be there again; the content in base64."""

    path: str
    content: str = field(repr=False)
    mode: int = 0o600
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """The saved state of one node, as it lies in the cluster while the node rejoins."""

    operation: str
    node: str
    phase: str = SAVED  # the step that was begun last, for people and for the end of a drain
    old_uid: str = ""  # of the Node that goes; empty: there was none when we began
    joined_uid: str = ""  # of the Node whose new kubelet was seen
    cordoned: bool = False  # by somebody else, before us
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: tuple[Document, ...] = ()
    resources: dict[str, str] = field(default_factory=dict)
    provider_id: str = ""
    pod_cidrs: tuple[str, ...] = ()
    files: tuple[KeptFile, ...] = ()
    agents: tuple[str, ...] = ()  # units that ran, or would at the next boot
    kubelet_flags: dict[str, str] = field(default_factory=dict)  # that it was joined with
    reason: str = ""  # why the last run failed

    def to_json(self) -> Document:
        return {"version": VERSION, **asdict(self)}

    def told(self) -> Document:
        """For a report: everything but the files' contents."""
        return {**self.to_json(), "files": [one.path for one in self.files]}


@dataclass(frozen=True, slots=True)
class NodeView:
    """The Node as the API has it."""

    uid: str
    operation: str = ""  # of the annotation; empty where the Node is not of our making
    ready: str = ""  # of its Ready condition: True, False, Unknown, or empty where there is none
    machine_id: str = ""
    control_plane: bool = False
    cordoned: bool = False

    @property
    def spoken(self) -> bool:
        """A kubelet has said how it is; Unknown is a controller's word."""
        return self.ready in ("True", "False")


@dataclass(frozen=True, slots=True)
class HostView:
    """The machine as it was found; all is empty where it can't be reached."""

    node: str
    reachable: bool = False
    machine_id: str = ""
    control_plane: bool = False
    kubelet_running: bool = False
    kubelet_conf: bool = False
    mark: str = ""  # the operation after whose reset nothing of an old identity is left
    problems: tuple[str, ...] = ()  # why it could not rejoin
    agents: tuple[str, ...] = ()
    kubelet_flags: dict[str, str] = field(default_factory=dict)


def steps_left(record: Record, node: NodeView | None, host: HostView) -> tuple[str, ...]:
    """The steps from here to the end, in order; without its host, as far as the API alone gets."""
    if has_joined(record, node, host):
        return RESTORE, AGENTS, FINISH
    other = node is not None and not waits_for_kubelet(record, node)
    if not host.reachable:
        return (DRAIN, DELETE) if other else ()
    return tuple(step for step in STEPS if other or step not in (DRAIN, DELETE))


def has_joined(record: Record, node: NodeView | None, host: HostView) -> bool:
    """Whether the host's identity is of this operation, and has its Node.

    The mark stands since the old identity went, so one that is there now is new. It is taken away near the end; from
    the restoring on, the Node's own number tells.
    """
    if node is None or not (host.kubelet_conf and host.kubelet_running):
        return False
    return host.mark == record.operation or bool(record.joined_uid and record.joined_uid == node.uid)


def waits_for_kubelet(record: Record, node: NodeView) -> bool:
    """Whether this is the Node that we made, and no kubelet has come to it yet.

    kubeadm refuses to join where one has, and what it said is no word of the kubelet that comes.
    """
    return node.operation == record.operation and not node.spoken


def refusals(node: NodeView | None, host: HostView, steps: tuple[str, ...], fenced: bool) -> list[str]:
    """What speaks against going on, each a sentence with its remedy."""
    said = []
    if host.control_plane or (node is not None and node.control_plane):
        said.append("it is a node of the control plane, and only workers are rejoined")
    if node is not None and node.machine_id and host.machine_id and node.machine_id != host.machine_id:
        said.append(
            f"the Node is of another machine (machine-id {node.machine_id}, here it is {host.machine_id}); "
            "name the right one with rejoin_node_name"
        )
    if STOP in steps:
        said += host.problems
    if not host.reachable and DELETE in steps:
        if not fenced:
            said.append(
                "it can't be reached, so nobody knows whether its pods still run; switch it off, then say "
                "rejoin_fenced=true"
            )
        elif node is not None and node.ready == "True":
            said.append("rejoin_fenced says that it is switched off, but its kubelet still speaks to the API server")
    return said


def view_of(node: Mapping[str, Any]) -> NodeView:
    """A Node object in the few values that count here."""
    metadata, status, spec = (node.get(part) or {} for part in ("metadata", "status", "spec"))
    labels = metadata.get("labels") or {}
    ready = [one.get("status", "") for one in status.get("conditions") or () if one.get("type") == "Ready"]
    return NodeView(
        uid=str(metadata.get("uid", "")),
        operation=str((metadata.get("annotations") or {}).get(REJOINING, "")),
        ready=str(ready[0]) if ready else "",
        machine_id=str((status.get("nodeInfo") or {}).get("machineID", "")),
        control_plane=any(label in labels for label in CONTROL_PLANE_LABELS),
        cordoned=bool(spec.get("unschedulable")),
    )


def read_host(facts: Mapping[str, Any]) -> HostView:
    """The view in what the host's module returned; ValueError names what does not fit."""
    if not isinstance(facts, Mapping) or not isinstance(facts.get("node"), str) or not facts["node"]:
        raise ValueError("host_facts must be what node_rejoin_host returned as host")
    known = {one.name: facts[one.name] for one in fields(HostView) if one.name in facts}
    for name in ("problems", "agents"):
        known[name] = tuple(map(str, known.get(name) or ()))
    for name in ("reachable", "control_plane", "kubelet_running", "kubelet_conf"):
        known[name] = known.get(name) in (True, "true", "True", "yes")
    known["kubelet_flags"] = {str(key): str(text) for key, text in dict(known.get("kubelet_flags") or {}).items()}
    return HostView(**known)


def read_record(value: Any) -> Record:
    """A record from its JSON; ValueError says what is wrong with it."""
    if not isinstance(value, dict) or value.get("version") != VERSION:
        raise ValueError(f"it is no saved state of version {VERSION}")
    texts = ("operation", "node", "phase", "old_uid", "joined_uid", "provider_id", "reason")
    value = {"kubelet_flags": {}, **value}  # a run of an earlier version saved none
    maps = ("labels", "annotations", "resources", "kubelet_flags")
    for name in texts:
        if not isinstance(value.get(name), str):
            raise ValueError(f"{name} is no text")
    for name in maps:
        if not isinstance(value.get(name), dict):
            raise ValueError(f"{name} is no map")
    for name in ("taints", "pod_cidrs", "files", "agents"):
        if not isinstance(value.get(name), list):
            raise ValueError(f"{name} is no list")
    if not value["operation"] or not value["node"]:
        raise ValueError("operation or node is empty")
    try:
        files = tuple(KeptFile(**one) for one in value["files"])
    except TypeError:
        raise ValueError("files has an entry that is none") from None
    plain: dict[str, Any] = {name: value[name] for name in texts}
    plain |= {name: {str(key): str(text) for key, text in value[name].items()} for name in maps}
    return Record(
        **plain,
        cordoned=value.get("cordoned") is True,
        taints=tuple(value["taints"]),
        pod_cidrs=tuple(map(str, value["pod_cidrs"])),
        files=files,
        agents=tuple(map(str, value["agents"])),
    )
