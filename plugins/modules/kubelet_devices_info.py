#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_devices_info
short_description: Read who holds which device on a node
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Runs on the node, as root, and asks its kubelet who holds which device (the PodResources API, which knows pods by
    name), and reads the kubelet's device checkpoint, which knows pods by UID, what their device plugin put into them,
    and which devices are registered.
  - Each of the two is enough where the other is missing. Nothing has to be installed on the node.
  - The checkpoint of every Kubernetes is read, from before 1.20 too, and its checksum is verified. A kubelet that finds
    the checksum wrong starts with nothing, so such a file is told, and used only where the kubelet does not answer.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  socket:
    description: The socket of the kubelet's PodResources API.
    type: path
    default: /var/lib/kubelet/pod-resources/kubelet.sock
  checkpoint:
    description: The kubelet's device checkpoint.
    type: path
    default: /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
  timeout:
    description: Seconds to wait for the kubelet's answer.
    type: int
    default: 10
seealso:
  - module: colocation.kubernetes.node_capacity_info
"""

EXAMPLES = r"""
- name: Who holds which device
  colocation.kubernetes.kubelet_devices_info:
  register: found

- name: What a pod got
  ansible.builtin.debug:
    msg: "{{ item.namespace }}/{{ item.pod }}: {{ item.devices | map(attribute='id') | join(', ') }}"
  loop: "{{ found.allocations | selectattr('resource', 'eq', 'mock.com/gpu') }}"
  loop_control:
    label: "{{ item.container }}"
"""

RETURN = r"""
allocations:
  description: Who holds devices, one entry for each container and resource.
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
      sample: mock.com/gpu
    namespace:
      description: The pod's namespace; empty where the kubelet did not answer.
      type: str
    pod:
      description: The pod's name; empty where the kubelet did not answer.
      type: str
    pod_uid:
      description: The pod's UID; empty where the checkpoint does not tell.
      type: str
    container:
      description: The container's name.
      type: str
    devices:
      description: The devices, each with its C(id) and its C(numa_nodes), which may be none.
      type: list
      elements: dict
      sample: [{"id": "mock-0", "numa_nodes": [0]}]
    environment:
      description: Environment variables that the device plugin put into the container.
      type: dict
    mounts:
      description: Mounts, each with C(container_path), C(host_path) and C(read_only).
      type: list
      elements: dict
    device_files:
      description: Device files, each with C(container_path), C(host_path) and C(permissions).
      type: list
      elements: dict
    annotations:
      description: Annotations for the container runtime.
      type: dict
    cdi_devices:
      description: Names of CDI devices.
      type: list
      elements: str
    sources:
      description: Where this stands, V(pod_resources), V(checkpoint) or both. Pods that are gone may be left in the
        checkpoint.
      type: list
      elements: str
    problem:
      description: Why the device plugin's answer could not be read; empty otherwise.
      type: str
resources:
  description: How many devices there are, by resource.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The resource.
      type: str
    registered:
      description: How many healthy devices are registered; null where the checkpoint does not tell.
      type: int
    allocated:
      description: How many devices containers hold.
      type: int
    free:
      description: How many registered devices nobody holds; null where the checkpoint does not tell.
      type: int
pod_resources:
  description: Whether the kubelet answered (C(read)), and why not (C(problem)).
  returned: success
  type: dict
  sample: {"read": true, "problem": ""}
checkpoint:
  description:
    - Whether the checkpoint was read (C(read)) and believed (C(intact)), and why not (C(problem)).
    - C(format) is V(numa) since Kubernetes 1.20, V(list) before, V(none) where no container holds a device.
  returned: success
  type: dict
  sample: {"read": true, "intact": true, "format": "numa", "problem": ""}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._checkpoint import (
    CheckpointError,
    parse_checkpoint,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._device_report import count_resources, join
from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError, call
from ansible_collections.colocation.kubernetes.plugins.module_utils._pod_resources import LIST_METHOD, read_list
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import ProtobufError

ARGUMENTS = {
    "socket": {"type": "path", "default": "/var/lib/kubelet/pod-resources/kubelet.sock"},
    "checkpoint": {"type": "path", "default": "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"},
    "timeout": {"type": "int", "default": 10},
}


def ask_kubelet(path, timeout):
    """The PodResources list, and what went wrong."""
    try:
        return read_list(call(path, LIST_METHOD, b"", timeout)), ""
    except CallError as problem:
        return None, str(problem)
    except ProtobufError as problem:
        return None, f"{path}: the kubelet's answer can't be read: {problem}"


def read_checkpoint(path):
    """The checkpoint, and what is wrong with it."""
    try:
        with open(path, "rb") as file:
            found = parse_checkpoint(file.read())
    except OSError as problem:
        return None, f"{path}: {problem.strerror}"
    except CheckpointError as problem:
        return None, f"{path}: {problem}"
    if not found.intact:
        told = f"its checksum is {found.checksum}, that of its data is {found.computed}: a kubelet would ignore it"
        return found, f"{path}: {told}"
    return found, ""


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    held, unanswered = ask_kubelet(module.params["socket"], module.params["timeout"])
    checkpoint, damage = read_checkpoint(module.params["checkpoint"])
    if held is None and checkpoint is None:
        module.fail_json(msg=f"neither source can be read. {unanswered}. {damage}")
    intact = checkpoint is not None and checkpoint.intact
    # Without the kubelet's word a damaged file is all there is, and it is told as such.
    believed = checkpoint if intact or held is None else None
    allocations = join(held or [], believed.entries if believed else [])
    module.exit_json(
        changed=False,
        allocations=allocations,
        resources=count_resources(allocations, believed),
        pod_resources={"read": held is not None, "problem": unanswered},
        checkpoint={
            "read": checkpoint is not None,
            "intact": intact,
            "format": checkpoint.form if checkpoint else "none",
            "problem": damage,
        },
    )


if __name__ == "__main__":
    main()
