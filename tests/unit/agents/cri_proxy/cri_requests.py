# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Requests as a kubelet sends them, with fields that our table does not know; and a policy that writes down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from colocation.common.protobuf import message_classes
from colocation.cri_proxy.calls import Creation, Edit, Event, Resize
from colocation.cri_proxy.messages import wrapped
from colocation.cri_proxy.protocol import TABLE

# What a kubelet sends beside what we read, and fields of an API to come.
NEWER = message_classes(
    "newer.v1",
    {
        **TABLE,
        "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "readonly": (3, "bool")},
        "ImageSpec": {"image": (1, "string"), "annotations": (2, "map<string, string>")},
        "HugepageLimit": {"page_size": (1, "string"), "limit": (2, "uint64")},
        "LinuxContainerResources": {
            **TABLE["LinuxContainerResources"],
            "hugepage_limits": (8, "repeated HugepageLimit"),
            "unified": (9, "map<string, string>"),
            "memory_swap_limit_in_bytes": (10, "int64"),
            "to_come": (900, "string"),
        },
        "SecurityContext": {"privileged": (2, "bool"), "run_as_username": (6, "string")},
        "LinuxContainerConfig": {
            "resources": (1, "LinuxContainerResources"),
            "security_context": (2, "SecurityContext"),
        },
        "ContainerConfig": {
            **TABLE["ContainerConfig"],
            "image": (2, "ImageSpec"),
            "command": (3, "repeated string"),
            "mounts": (7, "repeated Mount"),
            "log_path": (11, "string"),
            "tty": (14, "bool"),
            "to_come": (500, "repeated string"),
        },
        "CreateContainerRequest": {**TABLE["CreateContainerRequest"], "to_come": (77, "bytes")},
        "UpdateContainerResourcesRequest": {**TABLE["UpdateContainerResourcesRequest"], "to_come": (99, "int64")},
    },
)

RESOURCES = {
    "cpu_period": 100_000,
    "cpu_quota": 400_000,
    "cpu_shares": 4096,
    "memory_limit_in_bytes": 1 << 30,
    "oom_score_adj": 900,
    "cpuset_cpus": "0-63",
    "hugepage_limits": [{"page_size": "2MB", "limit": 7}],
    "unified": {"memory.high": "1"},
    "memory_swap_limit_in_bytes": 5,
    "to_come": "newer",
}
POD = {
    "metadata": {"name": "web-0", "uid": "u-1", "namespace": "shop", "attempt": 1},
    "labels": {"app": "web"},
    "annotations": {"colocation/hint": "near"},
    "linux": {"cgroup_parent": "kubepods.slice"},
}


def creation(**more: Any) -> Any:
    """A CreateContainerRequest."""
    config = {
        "metadata": {"name": "main", "attempt": 3},
        "image": {"image": "registry/web:1", "annotations": {"a": "b"}},
        "command": ["/bin/web", "--all"],
        "envs": [{"key": "BLOCKS", "value": b"CM-0-1"}, {"key": "BYTES", "value": b"\xff/"}],
        "mounts": [{"container_path": "/x", "host_path": "/y", "readonly": True}],
        "labels": {"io.kubernetes.pod.uid": "u-1"},
        "annotations": {"io.kubernetes.container.hash": "1234"},
        "log_path": "main/3.log",
        "tty": True,
        "to_come": ["one", "two"],
        "linux": {"resources": RESOURCES, "security_context": {"privileged": True, "run_as_username": "me"}},
        **more,
    }
    return NEWER["CreateContainerRequest"](pod_sandbox_id="s-1", config=config, sandbox_config=POD, to_come=b"\0\xff")


def update() -> Any:
    """An UpdateContainerResourcesRequest."""
    message = NEWER["UpdateContainerResourcesRequest"]
    return message(container_id="c-1", linux=RESOURCES, annotations={"why": "resize"}, to_come=-4)


def body(message: Any) -> bytes:
    """As gRPC sends it."""
    return wrapped(message.SerializeToString())


@dataclass
class PolicyDouble:
    """Answers always the same, or raises."""

    edit: Edit = Edit()
    fails: bool = False
    creations: list[Creation] = field(default_factory=list)
    resizes: list[Resize] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def create(self, creation: Creation) -> Edit:
        self.creations.append(creation)
        return self.answer()

    def resize(self, resize: Resize) -> Edit:
        self.resizes.append(resize)
        return self.answer()

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self.answer()

    def answer(self) -> Edit:
        if self.fails:
            raise RuntimeError("the policy is broken")
        return self.edit
