#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_capacity
short_description: Set and remove extended resources of nodes
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Writes extended resources into the capacity of Node objects through the Kubernetes API, and removes them, also those
    that a device plugin left behind when it was taken away.
  - Runs wherever the API can be reached, on the controller for example, and needs no library there.
  - One call takes any number of nodes and changes them in parallel. What became of each stands in RV(results). When
    some fail the others are done all the same, and the task fails with the names of those that did.
  - Nobody's change is overwritten unseen. A change that another one came before is made again from what stands then.
  - Takes the rights to get C(nodes), to list them for O(label_selectors), to patch C(nodes/status), and for removals to
    list C(pods).
attributes:
  check_mode:
    support: full
    details: The API server is asked for a dry run of each change, so missing rights and bad values come to light.
  diff_mode:
    support: full
    details: Only the resources that change, for each node.
  idempotent:
    support: full
    details: Without O(wait) a kubelet may put back what was removed; then the second run removes it again.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
options:
  node:
    description:
      - The names of the nodes.
      - Exactly one of O(node) and O(label_selectors) is needed.
    type: list
    elements: str
    aliases: [nodes, name]
  label_selectors:
    description: Labels that choose the nodes, for example V(gpu=mock). A node must match all. None need match.
    type: list
    elements: str
    aliases: [label_selector]
  resources:
    description:
      - Amounts by the name of the resource. Amounts are whole, and may be written as Kubernetes does, V(2k) or V(1Ki).
      - With O(state=absent) the names count and the amounts don't.
      - Native resources (C(cpu), C(memory), C(pods), C(ephemeral-storage), C(hugepages-*)) are refused.
    type: dict
  resource:
    description: The name of one resource, in place of O(resources).
    type: str
  value:
    description: The amount of O(resource).
    type: str
  state:
    description:
      - V(present) sees to it that the nodes have these amounts, and leaves other resources alone.
      - V(absent) removes the resources.
      - V(exact) sees to it that the nodes have these amounts and no other extended resource.
    type: str
    choices: [present, absent, exact]
    default: present
  force:
    description:
      - Whether to change a resource that a live device plugin offers, and to remove one that pods hold. Else that is
        refused, with the names of the pods.
      - The kubelet writes a live plugin's resource back at its next sync.
    type: bool
    default: false
  wait:
    description:
      - Whether to wait until the kubelets have followed. What is set shows in allocatable then; what is removed stays
        away.
      - For five minutes after a device plugin went, its kubelet writes the resource back. It is then removed when the
        kubelet lets go of it, and watched for O(settle_time).
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait at most.
    type: int
    default: 400
  settle_time:
    description:
      - Seconds that a resource which a kubelet wrote must stay as wished before it counts as settled.
      - With O(wait) a device plugin that seems to live has as long to be gone before it is refused, for the kubelet
        writes its Node only now and then.
      - It should be more than twice the kubelet's C(nodeStatusUpdateFrequency), which is 10 s unless configured.
    type: int
    default: 25
seealso:
  - module: colocation.kubernetes.node_capacity_info
  - name: Advertise Extended Resources for a Node
    description: What Kubernetes itself says of extended resources.
    link: https://kubernetes.io/docs/tasks/administer-cluster/extended-resource-node/
"""

EXAMPLES = r"""
# Ad hoc: ansible localhost -m colocation.kubernetes.node_capacity -a 'node=worker1 resource=mock.com/gpu value=10'

- name: Ten mock GPUs on one node
  colocation.kubernetes.node_capacity:
    node: worker1
    resource: mock.com/gpu
    value: 10
  delegate_to: localhost

- name: The same on every node with a label, and wait until pods can use them
  colocation.kubernetes.node_capacity:
    label_selectors: [gpu=mock]
    resources:
      mock.com/gpu: 10
      mock.com/gpu-memory: 4k
    wait: true
  delegate_to: localhost
  run_once: true

- name: Remove what a device plugin left behind, and see to it that it stays away
  colocation.kubernetes.node_capacity:
    node: [worker1, worker2]
    resource: mock.com/gpu
    state: absent
    wait: true
  delegate_to: localhost
  run_once: true

- name: No other extended resource than this one
  colocation.kubernetes.node_capacity:
    node: worker1
    resources:
      mock.com/gpu: 2
    state: exact
    kubeconfig: ~/.kube/config
    context: kubernetes-admin@kubernetes
  delegate_to: localhost
"""

RETURN = r"""
results:
  description: What became of each node, in the order in which they were named.
  returned: always, once the nodes are known
  type: list
  elements: dict
  contains:
    node:
      description: The node's name.
      type: str
      sample: worker1
    changed:
      description: Whether its capacity was changed; in check mode whether it would be.
      type: bool
    failed:
      description: Whether it was left as it was, or did not settle in time.
      type: bool
    msg:
      description: Why it failed, or that its kubelet may undo the change. Empty otherwise.
      type: str
      sample: ""
    settled:
      description: Whether its kubelet is known to have followed.
      type: bool
    capacity:
      description: All extended resources in its capacity after the call, or as they would be after it.
      type: dict
      sample: {"mock.com/gpu": "10"}
    allocatable:
      description: The same of what is allocatable.
      type: dict
      sample: {"mock.com/gpu": "10"}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import WishError, make_wish
from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_run import CapacityRun, failures
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_choice import bad_names, choose_nodes

ARGUMENTS = {
    **kube_arguments(),
    "node": {"type": "list", "elements": "str", "aliases": ["nodes", "name"]},
    "label_selectors": {"type": "list", "elements": "str", "aliases": ["label_selector"]},
    "resources": {"type": "dict"},
    "resource": {"type": "str"},
    "value": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent", "exact"], "default": "present"},
    "force": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 400},
    "settle_time": {"type": "int", "default": 25},
}


def read_wish(module):
    """The resources from either form, checked before anything is asked of the API."""
    params = module.params
    resources = dict(params["resources"] or {})
    if params["resource"] is not None:
        resources[params["resource"]] = params["value"]
    try:
        return make_wish(params["state"], resources, params["force"])
    except WishError as error:
        module.fail_json(msg=str(error))


def diffs(outcomes):
    return [
        {
            "before_header": f"capacity of node {one.name}",
            "after_header": f"capacity of node {one.name}",
            "before": one.before,
            "after": one.after,
        }
        for one in outcomes
        if one.changed
    ]


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("node", "label_selectors"), ("resources", "resource")],
        required_one_of=[("node", "label_selectors")],
        required_by={"value": "resource"},
    )
    params = module.params
    wish = read_wish(module)
    wrong = bad_names(params["node"] or ())
    if wrong:
        module.fail_json(msg=f"no node can be called {', '.join(map(repr, wrong))}")
    with connect(module) as client:
        try:
            nodes = choose_nodes(client, params["node"] or (), params["label_selectors"] or ())
        except ApiError as error:
            module.fail_json(msg=f"the nodes can't be listed: {error}")
        if not nodes:
            module.warn(f"no node has the labels {','.join(params['label_selectors'] or ())}")
        outcomes = CapacityRun(
            client,
            wish,
            dry_run=module.check_mode,
            wait=params["wait_timeout"] if params["wait"] else None,
            settle=params["settle_time"],
        ).run(nodes)
        module.no_log_values.update(client.secrets())
    for note in dict.fromkeys(one.note for one in outcomes if one.note):
        module.warn(f"{', '.join(one.name for one in outcomes if one.note == note)}: {note}")
    answer = {
        "changed": any(one.changed for one in outcomes),
        "results": [one.result() for one in outcomes],
        "diff": diffs(outcomes),
    }
    failed = failures(outcomes)
    if failed:
        module.fail_json(msg=failed, **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
