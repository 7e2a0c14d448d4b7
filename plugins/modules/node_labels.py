#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Have labels on a Node, or have them not
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Sets labels of a Node through the Kubernetes API and removes them again. The kubelet's own identity may do that on
    its own Node, for labels outside of C(kubernetes.io) and C(k8s.io), so the module can run on the node.
  - With O(state=absent) a label goes only if it says what O(labels) says; what somebody changed stays.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
    details: The API server is asked for a dry run, so missing rights come to light.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  node:
    description: The name of the Node.
    type: str
    required: true
  labels:
    description: Labels with their values.
    type: dict
    required: true
  state:
    description: Whether they should be there. A Node that is gone has no labels.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Mark this node, with its kubelet's identity
  colocation.kubernetes.node_labels:
    node: worker1
    labels:
      test.com/colocation-memory: "true"
    kubeconfig: /etc/kubernetes/kubelet.conf
"""

RETURN = r"""
labels:
  description: All labels of the Node after the call, or as they would be.
  returned: success
  type: dict
  sample: {"kubernetes.io/hostname": "worker1", "test.com/colocation-memory": "true"}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    ApiError,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_labels import changes, label_problem

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "labels": {"type": "dict", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> None:
    module = AnsibleModule(argument_spec={**kube_arguments(), **ARGUMENTS}, supports_check_mode=True)
    present, node = module.params["state"] == "present", module.params["node"]
    labels = {name: str(value) for name, value in module.params["labels"].items()}
    problems = [problem for name, value in labels.items() if (problem := label_problem(name, value))]
    if problems:
        module.fail_json(msg="; ".join(problems))
    path = api_path("api", "v1", "nodes", node)
    try:
        with connect(module) as api:
            found = api.find(path)
            if found is None and present:
                module.fail_json(msg=f"the cluster has no Node {node!r}")
            before = ((found or {}).get("metadata") or {}).get("labels") or {}
            patch = changes(before, labels, present)
            if patch:
                body = {"metadata": {"labels": patch}}
                api.patch(path, body, MERGE_PATCH, dry_run=module.check_mode, repeat=True)
    except ApiError as problem:
        module.fail_json(msg=str(problem))
    after = {name: value for name, value in {**before, **patch}.items() if value is not None}
    shown = {"before": {name: before.get(name) for name in patch}, "after": patch}
    headers = {"before_header": f"labels of node {node}", "after_header": f"labels of node {node}"}
    module.exit_json(changed=bool(patch), labels=after, diff={**shown, **headers} if patch else {})


if __name__ == "__main__":
    main()
