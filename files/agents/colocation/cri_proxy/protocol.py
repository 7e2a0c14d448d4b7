# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Container Runtime Interface, v1: the messages and fields in use.

Numbers and names are the API's; a contract test holds them against the .proto file of each supported Kubernetes.
"""

from __future__ import annotations

from colocation.common.protobuf import message_classes

PACKAGE = "runtime.v1"
RUNTIME = f"{PACKAGE}.RuntimeService"
TABLE = {
    "VersionRequest": {"version": (1, "string")},
    "VersionResponse": {
        "version": (1, "string"),
        "runtime_name": (2, "string"),
        "runtime_version": (3, "string"),
        "runtime_api_version": (4, "string"),
    },
    "KeyValue": {"key": (1, "string"), "value": (2, "bytes")},
    "LinuxContainerResources": {
        "cpu_period": (1, "int64"),
        "cpu_quota": (2, "int64"),
        "cpu_shares": (3, "int64"),
        "memory_limit_in_bytes": (4, "int64"),
        "oom_score_adj": (5, "int64"),
        "cpuset_cpus": (6, "string"),
        "cpuset_mems": (7, "string"),
    },
    "LinuxContainerConfig": {"resources": (1, "LinuxContainerResources")},
    "ContainerMetadata": {"name": (1, "string"), "attempt": (2, "uint32")},
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "envs": (6, "repeated KeyValue"),
        "labels": (9, "map<string, string>"),
        "annotations": (10, "map<string, string>"),
        "linux": (15, "LinuxContainerConfig"),
    },
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "uint32"),
    },
    "LinuxPodSandboxConfig": {"cgroup_parent": (1, "string")},
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "labels": (6, "map<string, string>"),
        "annotations": (7, "map<string, string>"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StopContainerRequest": {"container_id": (1, "string")},
    "RemoveContainerRequest": {"container_id": (1, "string")},
    "UpdateContainerResourcesRequest": {
        "container_id": (1, "string"),
        "linux": (2, "LinuxContainerResources"),
        "annotations": (4, "map<string, string>"),
    },
    "PodSandbox": {
        "id": (1, "string"),
        "metadata": (2, "PodSandboxMetadata"),
        "state": (3, "int32"),  # 0 is ready
        "labels": (5, "map<string, string>"),
        "annotations": (6, "map<string, string>"),
    },
    "ListPodSandboxRequest": {},
    "ListPodSandboxResponse": {"items": (1, "repeated PodSandbox")},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "metadata": (3, "ContainerMetadata"),
        "state": (6, "int32"),  # created, running, exited, unknown
        "labels": (8, "map<string, string>"),
        "annotations": (9, "map<string, string>"),
    },
    "ListContainersRequest": {},
    "ListContainersResponse": {"containers": (1, "repeated Container")},
    "ContainerStatusRequest": {"container_id": (1, "string"), "verbose": (2, "bool")},
    "ContainerResources": {"linux": (1, "LinuxContainerResources")},
    "ContainerStatus": {"id": (1, "string"), "resources": (16, "ContainerResources")},
    "ContainerStatusResponse": {"status": (1, "ContainerStatus"), "info": (2, "map<string, string>")},
}
MESSAGES = message_classes(PACKAGE, TABLE)
