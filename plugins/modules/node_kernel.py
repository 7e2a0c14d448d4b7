#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_kernel
short_description: Kernel modules and sysctls of a node, now and after a reboot
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Loads kernel modules and sets sysctls, and writes C(/etc/modules-load.d/<name>.conf) and
    C(/etc/sysctl.d/<priority>-<name>.conf) so that a reboot keeps them.
  - Former values and files go to the ledger, from which M(colocation.kubernetes.node_restore) puts them back.
  - When a file that is read later at boot (or C(/etc/sysctl.conf)) sets one of the keys to another value, a warning
    names it. That file is left alone.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
    details: A sysctl that the kernel does not know yet (its module is not loaded) counts as a change there.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  modules:
    description: Kernel modules to have. One that is built into the kernel counts as loaded.
    type: list
    elements: str
    default: []
  sysctls:
    description: Keys and their values, as in C(sysctl.conf). V(true) and V(false) mean 1 and 0.
    type: dict
    default: {}
  name:
    description: Names the two files.
    type: str
    default: colocation-kubernetes
  priority:
    description: Two-digit start of the sysctl file's name. Files with later names win at boot.
    type: int
    default: 99
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: What Kubernetes needs of the kernel
  colocation.kubernetes.node_kernel:
    modules:
      - overlay
      - br_netfilter
    sysctls:
      net.ipv4.ip_forward: 1
      net.bridge.bridge-nf-call-iptables: 1
      net.bridge.bridge-nf-call-ip6tables: 1

- name: One more setting, in a file of its own
  colocation.kubernetes.node_kernel:
    name: inotify
    sysctls:
      fs.inotify.max_user_instances: 1024
"""

RETURN = r"""
modules_loaded:
  description: Modules that were loaded; in check mode, that would be.
  returned: success
  type: list
  elements: str
  sample: [br_netfilter]
sysctls_changed:
  description: Keys whose value in the running kernel changed, with C(before) (null when unknown) and C(after).
  returned: success
  type: dict
  sample:
    net.ipv4.ip_forward: {before: "0", after: "1"}
files_changed:
  description: Files that were written.
  returned: success
  type: list
  elements: str
  sample: [/etc/modules-load.d/colocation-kubernetes.conf, /etc/sysctl.d/99-colocation-kubernetes.conf]
overridden:
  description: A sentence for each setting that another file sets to something else at the next boot.
  returned: success
  type: list
  elements: str
  sample: []
"""

import re

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel import Kernel, KernelError, sysctl_value
from ansible_collections.colocation.kubernetes.plugins.module_utils._kernel_change import KernelWish, bring
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS

ROOT = "/"  # tests put a directory here

ARGUMENTS = {
    "modules": {"type": "list", "elements": "str", "default": []},
    "sysctls": {"type": "dict", "default": {}},
    "name": {"type": "str", "default": "colocation-kubernetes"},
    "priority": {"type": "int", "default": 99},
    **LEDGER_OPTIONS,
}


def wish_of(params: dict) -> KernelWish:
    """The wish in the parameters; ValueError says which is bad."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.@-]*", params["name"]):
        raise ValueError(f"name: {params['name']!r} can't be part of a file name; use letters, digits, '-' and '_'")
    if not 0 <= params["priority"] <= 99:
        raise ValueError(f"priority: {params['priority']} is not between 0 and 99")
    sysctls = {}
    for key, value in params["sysctls"].items():
        if not re.fullmatch(r"[^\s=*?\[\]#;]+", key) or ".." in key.split("/"):
            raise ValueError(f"sysctls: {key!r} is not the name of one setting, such as net.ipv4.ip_forward")
        if isinstance(value, (dict, list)) or value is None or "\n" in str(value):
            raise ValueError(f"sysctls: {key} has no usable value: {value!r}")
        sysctls[key] = sysctl_value(value)
    for name in params["modules"]:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
            raise ValueError(f"modules: {name!r} is not the name of a kernel module, such as br_netfilter")
    return KernelWish(params["name"], tuple(params["modules"]), sysctls, params["priority"])


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    ledger = Ledger(params["state_dir"], params["owner"], module.check_mode)
    try:
        change = bring(Kernel(runner(module.run_command), ROOT), ledger, wish_of(params))
    except (KernelError, LedgerError, ValueError) as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, params["state_dir"]))
    for warning in change.warnings:
        module.warn(warning)
    module.exit_json(
        changed=change.changed,
        modules_loaded=list(change.modules),
        sysctls_changed={key: {"before": old, "after": new} for key, (old, new) in change.sysctls.items()},
        files_changed=[file.path for file in change.files if file.changed],
        overridden=list(change.warnings),
        **({"diff": change.diff()} if change.changed else {}),
    )


if __name__ == "__main__":
    main()
