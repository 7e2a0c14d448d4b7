#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Look at everything that decides whether a host can become a colocation node
version_added: 0.1.0
description:
  - Reads, in one call, what the role P(colocation.kubernetes.preflight#role) judges a host by.
    These are the system, kernel, first process and user, the clock, cgroups, free disk, swap, kubelet and containerd,
    and whether the API server answers from there.
  - Changes nothing, and judges nothing. What is wrong is decided on the controller.
  - An action plugin of the same name adds the controller's clock before and after, so that skew can be told from delay.
options:
  worker:
    description:
      - Whether the host runs pods. With V(false), RV(node.worker) is V(null).
    type: bool
    default: true
  disks:
    description:
      - Paths whose file systems are measured.
        For a path that does not exist yet, it is the nearest directory above it.
    type: list
    elements: path
    default: []
  api_timeout:
    description: Seconds that each step of the request to the API server may take.
    type: float
    default: 5
  containerd_config:
    description: containerd's main config file.
    type: path
    default: /etc/containerd/config.toml
  state_dirs:
    description: Where the roles keep what they changed, from which RV(node.owners) is read.
    type: list
    elements: path
    default: [/var/lib/colocation]
  command_timeout:
    description: Seconds that each command on the host may take.
    type: float
    default: 30
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what the real run would.
    details: It never changes anything.
  diff_mode:
    support: none
    details: There is nothing to compare.
  idempotent:
    support: full
  platform:
    support: full
    description: Systems that it works on.
    details: Linux with systemd, Python 3.10 or later.
    platforms: linux
seealso:
  - module: ansible.builtin.setup
author:
  - colocation.kubernetes contributors (@colocation)
"""

EXAMPLES = r"""
- name: Look at a host that runs pods
  colocation.kubernetes.node_facts:
    disks:
      - /var
      - /opt
  register: facts

- name: Is the API server reachable from there?
  ansible.builtin.debug:
    msg: "{{ facts.node.worker.api }}"

- name: Look at a control-plane host, where only login, clock and system matter
  colocation.kubernetes.node_facts:
    worker: false
"""

RETURN = r"""
node:
  description: What was found.
  returned: success
  type: dict
  contains:
    machine:
      description: Host name, machine ID, architecture, kernel, first process, user ID, Python, memory and os-release.
      returned: always
      type: dict
    clock:
      description: The host's clock in seconds since 1970, whether a time service keeps it in step, and who told.
      returned: always
      type: dict
      sample: {"now": 1767225600.5, "synchronized": true, "told_by": "timedatectl"}
    worker:
      description:
        - The keys C(cgroup), C(swap), C(disks), C(kubelet), C(containerd) and C(api). V(null) without O(worker).
      returned: always
      type: dict
    owners:
      description:
        - The parts of this collection of which something stands on the host, by their roles' names.
          V(null) where what was noted there can't be read.
      returned: always
      type: list
      elements: str
      sample: [device_plugin, node_prep]
asked_at:
  description: The controller's clock just before the host was asked, in seconds since 1970.
  returned: success
  type: float
answered_at:
  description: The controller's clock just after the answer.
  returned: success
  type: float
"""

import functools
import platform
import sys
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import DEFAULT_STATE_DIR
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import CONFIG
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import read_node, read_worker


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "worker": {"type": "bool", "default": True},
            "disks": {"type": "list", "elements": "path", "default": []},
            "api_timeout": {"type": "float", "default": 5},
            "containerd_config": {"type": "path", "default": CONFIG},
            "state_dirs": {"type": "list", "elements": "path", "default": [DEFAULT_STATE_DIR]},
            "command_timeout": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
    )
    run = functools.partial(run_for, seconds=module.params["command_timeout"])
    try:
        worker = None
        if module.params["worker"]:
            options = (module.params[name] for name in ("disks", "api_timeout", "containerd_config"))
            worker = read_worker("/", run, *options)
        python = f"{sys.executable} ({platform.python_version()})"
        node = read_node("/", run, python, worker, module.params["state_dirs"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"this host's state can't be read: {error}")
    module.exit_json(changed=False, node=asdict(node))


if __name__ == "__main__":
    main()
