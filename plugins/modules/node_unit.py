#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_unit
short_description: Systemd units of a node, with their former state kept for the uninstall
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Starts, stops, restarts, enables, disables, masks and unmasks units of systemd, then waits until they really are
    up or down. When one does not get there, the error has the last lines of its journal.
  - Before a change, whether the unit was active, enabled and masked goes to the ledger, from which
    M(colocation.kubernetes.node_restore) puts it back.
  - A unit file in C(/etc/systemd/system) that stands where a mask has to go is kept in the ledger too.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
    details: Works for units that are not installed yet with O(assume_installed=true).
  diff_mode:
    support: full
  idempotent:
    support: partial
    details: Except O(state=restarted), which always restarts.
options:
  name:
    description: Names of units, in the order in which they are treated. A name without a suffix is a service.
    type: list
    elements: str
    required: true
  state:
    description:
      - What the unit should do. Without it, it is left running or not.
      - V(stopped) is content with a unit that does not exist.
    type: str
    choices: [started, stopped, restarted]
  enabled:
    description:
      - Whether the unit starts at boot. Without it, this is left.
      - A unit that has no say in this (a static or generated one) is left too, with a warning.
    type: bool
  masked:
    description: Whether the unit is masked, which forbids any start. Without it, a mask is left.
    type: bool
  daemon_reload:
    description: Have systemd read all unit files first. This alone does not count as a change.
    type: bool
    default: false
  assume_installed:
    description:
      - In check mode, take a unit that is not installed for one that an earlier task would have installed, and report
        what would change. No effect outside of check mode.
    type: bool
    default: false
  remember:
    description:
      - Whether the ledger is told how the unit stood. V(false) is for a repair, since a broken state is nothing to go
        back to.
    type: bool
    default: true
  timeout:
    description: Seconds to wait for each unit to get up or down.
    type: int
    default: 60
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: The runtime runs, now and after a reboot, even if somebody masked it
  colocation.kubernetes.node_unit:
    name: containerd
    masked: false
    enabled: true
    state: started
    assume_installed: true

- name: A changed configuration takes effect
  colocation.kubernetes.node_unit:
    name: containerd
    state: restarted
    timeout: 120

- name: Two timers stay off
  colocation.kubernetes.node_unit:
    name: [apt-daily.timer, apt-daily-upgrade.timer]
    state: stopped
    enabled: false
"""

RETURN = r"""
units:
  description: How each unit stands after the call; in check mode, how it would.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Full name.
      type: str
    steps:
      description: What was done to it, in order.
      type: list
      elements: str
    before:
      description: How it stood; keys C(active), C(enabled), C(masked).
      type: dict
    after:
      description: How it stands.
      type: dict
  sample:
    - name: containerd.service
      steps: [unmask, enable, start]
      before: {active: false, enabled: false, masked: true}
      after: {active: true, enabled: true, masked: false}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError, UnitWish
from ansible_collections.colocation.kubernetes.plugins.module_utils._unit import UnitChange, bring

ARGUMENTS = {
    "name": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "stopped", "restarted"]},
    "enabled": {"type": "bool"},
    "masked": {"type": "bool"},
    "daemon_reload": {"type": "bool", "default": False},
    "assume_installed": {"type": "bool", "default": False},
    "remember": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 60},
    **LEDGER_OPTIONS,
}


def warnings(systemd: Systemd, change: UnitChange, wish: UnitWish) -> list[str]:
    """What the user asked for and systemd has no way to do."""
    if wish.enabled is None or change.after["enabled"] == wish.enabled:
        return []
    state = systemd.look(change.name)
    if not state.exists or state.can_be_enabled:
        return []
    verb = "enabled" if wish.enabled else "disabled"
    return [f"{change.name} is {state.enablement}, so it can't be {verb}; other units or generators pull it in"]


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    systemd = Systemd(runner(module.run_command))
    ledger = Ledger(params["state_dir"], params["owner"], module.check_mode)
    wish = UnitWish(params["state"], params["enabled"], params["masked"])
    changes: list[UnitChange] = []
    try:
        if params["daemon_reload"] and not module.check_mode:
            systemd.daemon_reload()
        for name in params["name"]:
            changes.append(
                bring(
                    systemd,
                    ledger,
                    name,
                    wish,
                    timeout=params["timeout"],
                    assume_installed=params["assume_installed"],
                    remember=params["remember"],
                )
            )
            for warning in warnings(systemd, changes[-1], wish):
                module.warn(warning)
    except (UnitError, LedgerError) as problem:
        module.fail_json(msg=str(problem), changed=any(change.changed for change in changes))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, params["state_dir"]))
    units = [
        {"name": change.name, "steps": list(change.steps), "before": change.before, "after": change.after}
        for change in changes
    ]
    diff = [change.diff() for change in changes if change.changed]
    module.exit_json(changed=bool(diff), units=units, **({"diff": diff} if diff else {}))


if __name__ == "__main__":
    main()
