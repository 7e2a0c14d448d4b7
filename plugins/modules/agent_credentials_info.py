#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_credentials_info
short_description: What credentials a node's agents have
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Reads the kubeconfig of the agents and asks the API server whether it still takes it. Nothing secret is returned.
  - Never fails because credentials are missing or broken; that is what it is there to tell.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  renew_days:
    description:
      - RV(renew) is true when fewer days are left and less than half of the time for which the credentials were made,
        or when the API server refuses them.
    type: int
    default: 30
  kubelet_kubeconfig:
    description: The kubelet's kubeconfig. Without it, that which the running kubelet was told to use.
    type: path
  node_name:
    description:
      - The node's name in the API. Without it, that in the kubelet's certificate, else that by which the API server
        knows the kubelet, else that which the kubelet was told, else the host's name.
    type: str
  timeout:
    description: Seconds for one answer of the API server.
    type: int
    default: 10
seealso:
  - module: colocation.kubernetes.agent_credentials
"""

EXAMPLES = r"""
- name: How long do the agents' credentials hold?
  colocation.kubernetes.agent_credentials_info:
  register: credentials

- name: Say it
  ansible.builtin.debug:
    msg: "{{ credentials.user }} until {{ credentials.expires }}"
"""

RETURN = r"""
node:
  description: The node's name in the API.
  returned: success
  type: str
  sample: worker1
kubelet_kubeconfig:
  description: Where the kubelet's kubeconfig is.
  returned: success
  type: str
  sample: /etc/kubernetes/kubelet.conf
exists:
  description: Whether there is a kubeconfig.
  returned: success
  type: bool
problem:
  description: Why it can't be used or what the API server said against it; empty where all is well.
  returned: success
  type: str
  sample: ""
source:
  description: Where the identity came from, by what stands in the kubeconfig.
  returned: success
  type: str
  sample: minted
server:
  description: The API server's address in it.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
user:
  description: Whose it is.
  returned: success
  type: str
  sample: system:serviceaccount:kube-system:colocation-agent-worker1
expires:
  description: When it ends; empty where it does not say.
  returned: success
  type: str
  sample: "2027-04-01T09:30:00Z"
days_left:
  description: Days until then.
  returned: success
  type: float
  sample: 62.5
accepted:
  description: Whether the API server takes it. Without a value where it did not answer.
  returned: success
  type: bool
renew:
  description: Whether another should be made now.
  returned: success
  type: bool
account:
  description: Namespace and node of the account that was made for this node, if one was.
  returned: success
  type: dict
  sample: {namespace: kube-system, node: worker1}
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils import _validity
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_answer import accepted
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import (
    CredentialsError,
    days_left,
    validity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_place import (
    Place,
    recorded_account,
    standing,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_surroundings import look_around
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR

ROOT = "/"  # tests put a directory here

ARGUMENTS = {
    "renew_days": {"type": "int", "default": 30},
    "kubelet_kubeconfig": {"type": "path"},
    "node_name": {"type": "str"},
    "timeout": {"type": "int", "default": 10},
    **STATE_DIR,
}
NOTHING = {
    "exists": False,
    "problem": "",
    "source": "",
    "server": "",
    "user": "",
    "expires": "",
    "days_left": None,
    "accepted": None,
    "renew": True,
}


def look(place: Place, renew_days: int, timeout: float) -> dict[str, Any]:
    """What stands there, and what the API says of it."""
    try:
        now = standing(place)
        if now is None:
            return NOTHING
        found = validity(now.access)
    except (AccessError, CredentialsError) as problem:
        return {**NOTHING, "exists": True, "problem": str(problem)}
    takes, said = accepted(now.access, timeout)
    moment = time.time()
    return {
        "exists": True,
        "problem": said,
        "source": now.source,
        "server": now.access.server,
        "user": found.user if found else "",
        "expires": _validity.iso(found.ends) if found else "",
        "days_left": days_left(found, moment),
        "accepted": takes,
        "renew": takes is False or (found is not None and found.due(moment, renew_days, 0.5)),
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    place = Place(module.params["state_dir"])
    around = look_around(ROOT, module.params["kubelet_kubeconfig"], module.params["node_name"])
    try:
        account = recorded_account(place)
    except CredentialsError as problem:
        module.fail_json(msg=str(problem))
    seen = look(place, module.params["renew_days"], module.params["timeout"])
    module.exit_json(changed=False, node=around.node, kubelet_kubeconfig=around.kubeconfig, account=account, **seen)


if __name__ == "__main__":
    main()
