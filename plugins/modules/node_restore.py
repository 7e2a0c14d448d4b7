#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_restore
short_description: Put back what the collection changed on a node
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Walks the ledger that the modules of this collection keep on a node and puts each thing back as it was.
  - A thing goes back only if it still is what was made of it. What somebody changed since stays, and is reported in
    RV(kept).
  - What could keep the kubelet from starting (swap on again; containerd or the kubelet stopped, disabled or masked;
    a containerd configuration that containerd can't read) is not put back without O(force), and is reported in
    RV(refused). Its entry stays, so that a later run with O(force) can do it.
  - Damaged entries are reported in RV(problems) and stop nothing.
  - A run that was interrupted is finished by the next. Entries of what is restored are dropped; when nothing is left,
    the ledger's directory goes too.
  - Loaded kernel modules stay loaded until the next boot, because pods may use them.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  owners:
    description:
      - Whose changes to undo, by the names that the modules were given in their O(ignore:owner) options.
      - An empty list means all.
    type: list
    elements: str
    default: []
  force:
    description: Put back also what could keep the kubelet from starting.
    type: bool
    default: false
  remove_packages:
    description: Remove packages that were installed; else they are only reported.
    type: bool
    default: false
  essential_units:
    description: Units without which the kubelet can't run.
    type: list
    elements: str
    default: [containerd.service, kubelet.service]
  timeout:
    description: Seconds to wait for a unit to get up or down.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: What would an uninstall change?
  colocation.kubernetes.node_restore:
    owners: [node_prep]
  check_mode: true
  diff: true

- name: Undo the preparation of the node
  colocation.kubernetes.node_restore:
    owners: [node_prep]
  register: restored

- name: Let units read their restored files
  ansible.builtin.systemd_service:
    name: "{{ item }}"
    state: restarted
  loop: "{{ restored.notify_units }}"

- name: Undo everything, on a node that is no node any more
  colocation.kubernetes.node_restore:
    force: true
    remove_packages: true
"""

RETURN = r"""
restored:
  description: What was put back; in check mode, what would be. For a unit, RV(restored[].reason) has the steps.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: file, directory, unit, sysctl, swap or package.
      type: str
    name:
      description: Path, unit, key, device or package.
      type: str
    owner:
      description: Who had changed it.
      type: str
    reason:
      description: A detail, or empty.
      type: str
  sample:
    - {kind: file, name: /etc/sysctl.d/99-colocation-kubernetes.conf, owner: node_prep, reason: ""}
kept:
  description: What was left as it is, with the reason and, for a file, where its original is. Keys as in RV(restored).
  returned: always
  type: list
  elements: dict
  sample:
    - kind: file
      name: /etc/fstab
      owner: node_prep
      reason: >-
        it is not what we wrote any more: its content was edited; the original is
        /var/lib/colocation/ledger/file.fstab.6a0fd73c01a6a0cf.original
refused:
  description: What was not put back without O(force), with the reason. Keys as in RV(restored).
  returned: always
  type: list
  elements: dict
  sample:
    - kind: swap
      name: /dev/vda3
      owner: node_prep
      reason: swap on again can keep the kubelet from starting (failSwapOn)
problems:
  description: Entries that could not be read, and things that could not be put back, each a sentence.
  returned: always
  type: list
  elements: str
  sample: []
notify_units:
  description: Units whose files were put back, so that a restart makes them use these.
  returned: always
  type: list
  elements: str
  sample: [containerd.service]
"""

from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR
from ansible_collections.colocation.kubernetes.plugins.module_utils._restore_walk import ESSENTIAL_UNITS, Limits, Walk
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import full_name

ROOT = "/"  # tests put a directory here

ARGUMENTS = {
    "owners": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "remove_packages": {"type": "bool", "default": False},
    "essential_units": {"type": "list", "elements": "str", "default": list(ESSENTIAL_UNITS)},
    "timeout": {"type": "int", "default": 60},
    **STATE_DIR,
}


def limits_of(params: dict) -> Limits:
    """The limits in the parameters."""
    return Limits(
        owners=tuple(params["owners"]),
        force=params["force"],
        remove_packages=params["remove_packages"],
        essential=tuple(full_name(name) for name in params["essential_units"]),
        timeout=params["timeout"],
    )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    ledger = Ledger(module.params["state_dir"], check_mode=module.check_mode)
    try:
        report = Walk(ledger, runner(module.run_command), limits_of(module.params), ROOT).go()
    except OSError as problem:
        module.fail_json(msg=f"The ledger {ledger.directory} can't be read: {problem}")
    for sentence in report.problems:
        module.warn(sentence)
    module.exit_json(changed=bool(report.restored), **asdict(report))


if __name__ == "__main__":
    main()
