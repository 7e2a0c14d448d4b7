#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: extender_code
short_description: The code of the scheduler's extender as one file
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Packs the scheduler's extender on the controller into a zipapp, one file that any Python 3.10 or later runs without
    anything else, small enough for a ConfigMap.
  - The same collection, with the same PyYAML beside Ansible, always gives the same bytes.
  - Runs on the controller only and asks no host.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: The file is kept in a cache of the controller, also in check mode. No host is changed.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  cache_dir:
    description:
      - Where the file is kept on the controller.
      - By default C(colocation-kubernetes/agents) in C($XDG_CACHE_HOME) or C(~/.cache).
    type: path
    default: ""
"""

EXAMPLES = r"""
- name: Pack the extender
  colocation.kubernetes.extender_code:
  register: extender

- name: Have it judge a configuration
  ansible.builtin.command:
    argv: [python3, -EsB, "{{ extender.path }}", --config=/dev/stdin, --check-config]
    stdin: "{{ extender_configuration }}"
  delegate_to: localhost
  changed_when: false
"""

RETURN = r"""
path:
  description: Where the file is on the controller.
  returned: success
  type: str
  sample: /root/.cache/colocation-kubernetes/agents/extender-1f3870be274f6c49.pyz
content:
  description: The file in base64, as a ConfigMap's C(binaryData) wants it.
  returned: success
  type: str
sha256:
  description: The file's hash.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule({"cache_dir": {"type": "path", "default": ""}}, supports_check_mode=True)
    module.fail_json(msg="The extender is packed by an action plugin of the same name, on the controller.")


if __name__ == "__main__":
    main()
