#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kubeconfig_read
short_description: Read a kubeconfig with everything that it refers to
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Gives the current context of a kubeconfig as a text that holds its certificates, key and token itself, for
    M(colocation.kubernetes.agent_credentials) on another machine.
  - What the agents can't use is refused with a sentence that names it - a program that prints credentials, a password,
    a proxy, a server whose certificate is not checked.
  - The result holds a secret. Use C(no_log) on the task, and look at RV(ignore:msg) with a second one, as in the
    example.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description: The kubeconfig.
    type: path
    required: true
  context:
    description: The context to take. Without it, the current one.
    type: str
"""

EXAMPLES = r"""
- name: Read the kubeconfig
  colocation.kubernetes.kubeconfig_read:
    path: ~/agents.kubeconfig
  delegate_to: localhost
  no_log: true
  register: read
  failed_when: false

- name: Say why, where it could not be read
  ansible.builtin.assert:
    that: read.kubeconfig is defined
    fail_msg: "{{ read.msg | default }}"
"""

RETURN = r"""
kubeconfig:
  description: The text. It holds a secret.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import read_material
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import (
    FILE,
    embedded,
    render,
    require_usable,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import choose_access, read_kubeconfig

ARGUMENTS = {"path": {"type": "path", "required": True}, "context": {"type": "str"}}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        access = choose_access([read_kubeconfig(module.params["path"])], module.params["context"] or "")
        require_usable(access)
        text = render(embedded(access, read_material), FILE)
    except AccessError as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=False, kubeconfig=text)


if __name__ == "__main__":
    main()
