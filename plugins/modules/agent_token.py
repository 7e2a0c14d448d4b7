#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_token
short_description: A token of the account of a node's agents
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Asks the API server for a token of the account that M(colocation.kubernetes.agent_account) made.
  - Every call makes another token; the ones before hold until they end. So call it only when one is needed, which
    RV(colocation.kubernetes.agent_credentials_info#module:renew) tells.
  - The result holds a secret. Use C(no_log) on the task, and look at RV(ignore:msg) with a second one, as in the
    example.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
    details: No token is made in check mode, and none is returned.
  diff_mode:
    support: none
  idempotent:
    support: none
    details: Each call makes another token.
options:
  node:
    description: The node whose agents' account it is.
    type: str
    required: true
  namespace:
    description: Where the ServiceAccount is.
    type: str
    default: kube-system
  days:
    description: For how long it should hold. The API server may give less; RV(expires) says the truth.
    type: int
    default: 90
"""

EXAMPLES = r"""
- name: A token for the agents of a node
  colocation.kubernetes.agent_token:
    node: worker1
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: control-plane
  no_log: true
  register: minted
  failed_when: false

- name: Say why, where there is none
  ansible.builtin.assert:
    that: minted.token is defined
    fail_msg: "{{ minted.msg | default }}"
"""

RETURN = r"""
token:
  description: The token. It is a secret.
  returned: success, outside of check mode
  type: str
expires:
  description: When it ends.
  returned: success, outside of check mode
  type: str
  sample: "2027-02-16T10:00:00Z"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_account import Account, AccountError, mint
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments

ARGUMENTS = {
    "node": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "kube-system"},
    "days": {"type": "int", "default": 90},
}


def main() -> None:
    module = AnsibleModule(argument_spec={**kube_arguments(), **ARGUMENTS}, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=True)
    account = Account(module.params["node"], module.params["namespace"])
    try:
        with connect(module) as api:
            token, expires = mint(api, account, module.params["days"])
    except (AccountError, ApiError) as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=True, token=token, expires=expires)


if __name__ == "__main__":
    main()
