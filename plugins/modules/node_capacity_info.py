#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_capacity_info
short_description: Read the extended resources of nodes
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Reads from the Kubernetes API what extended resources nodes have, how much of them pods hold, and who wrote them.
  - Who wrote a resource is read from the Node's C(managedFields). Where the API server keeps none, the owner is
    V(unknown).
  - Takes the rights to get or list C(nodes), and to list C(pods).
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
options:
  node:
    description: The names of the nodes. Without it and O(label_selectors) all nodes are read.
    type: list
    elements: str
    aliases: [nodes, name]
  label_selectors:
    description: Labels that choose the nodes. A node must match all.
    type: list
    elements: str
    aliases: [label_selector]
seealso:
  - module: colocation.kubernetes.node_capacity
"""

EXAMPLES = r"""
- name: What extended resources there are
  colocation.kubernetes.node_capacity_info:
  register: found
  delegate_to: localhost
  run_once: true

- name: Resources that device plugins left behind
  ansible.builtin.debug:
    msg: "{{ item.node }}: {{ gone | map(attribute='name') | join(', ') }}"
  vars:
    gone: "{{ item.resources | selectattr('owner', 'eq', 'device_plugin') | rejectattr('live') }}"
  loop: "{{ found.nodes }}"
  loop_control:
    label: "{{ item.node }}"
  when: gone | length > 0
"""

RETURN = r"""
nodes:
  description: The nodes, in the order in which they were named, else by name.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: The node's name.
      type: str
      sample: worker1
    resources:
      description: Its extended resources, by name.
      type: list
      elements: dict
      contains:
        name:
          description: The resource.
          type: str
          sample: mock.com/gpu
        capacity:
          description: How much the node has; empty when there is none in its capacity.
          type: str
          sample: "10"
        allocatable:
          description: How much of it pods may have; empty when its kubelet has not followed.
          type: str
          sample: "10"
        requested:
          description: How much pods hold that have not ended.
          type: str
          sample: "2"
        pods:
          description: The pods that hold it.
          type: list
          elements: dict
          contains:
            namespace:
              description: The pod's namespace.
              type: str
            name:
              description: The pod's name.
              type: str
            amount:
              description: How much it holds.
              type: str
        owner:
          description:
            - V(device_plugin) when the kubelet wrote it for a device plugin, V(node_capacity) when this collection did.
            - V(unknown) when somebody else did, or the API server does not know.
          type: str
          sample: node_capacity
        manager:
          description: The last writer, by the name under which the API server knows it; empty when it does not.
          type: str
          sample: colocation.kubernetes.node_capacity
        live:
          description: Whether a device plugin offers healthy devices now.
          type: bool
          sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_report import read_nodes, report
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_choice import bad_names

ARGUMENTS = {
    **kube_arguments(),
    "node": {"type": "list", "elements": "str", "aliases": ["nodes", "name"]},
    "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
}


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS, supports_check_mode=True, mutually_exclusive=[("node", "label_selectors")]
    )
    names = module.params["node"] or []
    wrong = bad_names(names)
    if wrong:
        module.fail_json(msg=f"no node can be called {', '.join(map(repr, wrong))}")
    with connect(module) as client:
        try:
            found = read_nodes(client, names, module.params["label_selectors"] or [])
        except ApiError as error:
            module.fail_json(msg=str(error))
        module.no_log_values.update(client.secrets())
    module.exit_json(changed=False, nodes=[report(node, pods) for node, pods in found])


if __name__ == "__main__":
    main()
