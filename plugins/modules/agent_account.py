#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_account
short_description: An account in the API for the agents of one node
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Makes a ServiceAccount, a ClusterRole and a ClusterRoleBinding, all named C(colocation-agent-<node>), with the
    rights that the agents of a node use and no others.
  - The status of a Node can be patched for that node alone. RBAC can't say "the pods of a node", so the account can
    read and evict the pods of all nodes; C(docs/security-model.md) says what that means.
  - All three belong to the Node. When it is deleted, Kubernetes removes them, and every token ends.
  - Objects with these names and without our labels are left alone, and the module fails.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: What changes in each object. Nothing in them is secret.
  idempotent:
    support: full
options:
  node:
    description: The node's name in the API.
    type: str
    required: true
  namespace:
    description: Where the ServiceAccount is. The namespace must exist.
    type: str
    default: kube-system
  state:
    description: Whether there should be an account.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: colocation.kubernetes.agent_token
"""

EXAMPLES = r"""
- name: An account for the agents of a node
  colocation.kubernetes.agent_account:
    node: worker1
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: control-plane

- name: None any more
  colocation.kubernetes.agent_account:
    node: worker1
    kubeconfig: ~/.kube/config
    state: absent
  delegate_to: localhost
"""

RETURN = r"""
user:
  description: The name by which the API knows the account.
  returned: success
  type: str
  sample: system:serviceaccount:kube-system:colocation-agent-worker1
created:
  description: Whether the account itself was made now, or in check mode would be; tokens from before are worth nothing.
  returned: success
  type: bool
"""

import json

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_account import (
    Account,
    AccountError,
    drop,
    make,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "kube-system"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> None:
    module = AnsibleModule(argument_spec={**kube_arguments(), **ARGUMENTS}, supports_check_mode=True)
    account = Account(module.params["node"], module.params["namespace"])
    deed = make if module.params["state"] == "present" else drop
    result: dict[str, object] = {}
    try:
        with connect(module) as api:
            changes = deed(api, account, module.check_mode)
    except (AccountError, ApiError) as problem:
        module.fail_json(msg=str(problem))
    if changes.after:
        shown = {"before": changes.before, "after": changes.after}
        result["diff"] = {
            **{which: json.dumps(objects, indent=2, sort_keys=True) + "\n" for which, objects in shown.items()},
            **{f"{which}_header": account.name for which in shown},
        }
    created = module.params["state"] == "present" and changes.before.get("ServiceAccount", ...) is None
    module.exit_json(changed=bool(changes.after), user=account.user, created=created, **result)


if __name__ == "__main__":
    main()
