#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Turn a node's swap off, now and for good, or tell what there is of it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_swap
short_description: Turn swap off on a node, now and after every reboot
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Turns off all swap of a node and everything that would turn it on again at boot.
  - Swap lines of C(/etc/fstab) are commented; everything else in the file stays as it is, byte for byte. Lines with
    C(noauto) stay, as boot leaves them off.
  - Swap units of systemd are masked, wherever they come from. So are the units of C(zram-generator), whose
    configuration stays as it is.
  - Services that make swap (C(zramswap), C(zram-config), C(dphys-swapfile), C(swapspace) and their like) are stopped
    and masked.
  - A swap partition that systemd finds on the root disk by its type (C(systemd-gpt-auto-generator)) needs no line
    anywhere, and wakes up when the last swap line of C(/etc/fstab) is commented. For such a partition, and only then,
    C(swap.target) is masked.
  - Devices that are on are turned off one after the other, after a check that memory can take what is swapped out.
  - All of it is noted in the ledger under O(state_dir), with the original of each changed file, so that it can be
    undone.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
    details: RV(steps) holds the same steps as the real run. What would fail for want of memory fails in check mode too.
  diff_mode:
    support: full
    details: What is on and what turns it on, before and after; no file contents.
  idempotent:
    support: full
options:
  state:
    description:
      - With V(disabled), swap is turned off now and for good.
      - With V(kept), nothing is changed; what there is of swap is returned.
    type: str
    choices: [disabled, kept]
    default: disabled
  kubelet_fail_swap_on:
    description:
      - What the kubelet's C(failSwapOn) is. With O(state=kept) and V(true), the module fails when the node has swap,
        because the kubelet would not start.
      - Without it nothing is checked.
    type: bool
  force:
    description:
      - Turn swap off even when memory can't take what is swapped out. The kernel may then kill processes.
    type: bool
    default: false
  timeout:
    description:
      - For how many seconds turning off one device may take, or stopping one service.
      - When the time is over the device stays on and the module fails. What was brought back by then stays in memory,
        so that the next run has less to do.
    type: int
    default: 300
seealso:
  - module: colocation.kubernetes.node_restore
notes:
  - cloud-init makes the swap of its C(swap) key at the first boot of an instance only; a new instance from an image
    needs this module again. Agents that make swap at every boot by themselves, such as Azure's with
    C(ResourceDisk.EnableSwap=y), are not known to this module.
"""

EXAMPLES = r"""
- name: Turn swap off, now and for good
  colocation.kubernetes.node_swap:

- name: See what that would do
  colocation.kubernetes.node_swap:
  check_mode: true
  diff: true
  register: swap

- name: Keep swap, and be sure that the kubelet can start with it
  colocation.kubernetes.node_swap:
    state: kept
    kubelet_fail_swap_on: false

- name: Give a slow disk with much in it half an hour
  colocation.kubernetes.node_swap:
    timeout: 1800
"""

RETURN = r"""
active_before:
  description: The devices that were on.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Device or file.
      type: str
    kind:
      description: V(file), V(partition) or V(zram).
      type: str
    size_kib:
      description: Its size in KiB.
      type: int
    used_kib:
      description: How much of it is in use, in KiB.
      type: int
    priority:
      description: Its priority.
      type: int
  sample:
    - name: /swapfile
      kind: file
      size_kib: 1048572
      used_kib: 0
      priority: -2
persistent_sources:
  description: What would have turned swap on at the next boot.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(fstab), V(unit), V(generated), V(stale), V(gpt-auto), V(zram-generator) or V(service).
      type: str
    where:
      description: The line of C(/etc/fstab), or the file of the unit or configuration.
      type: str
    device:
      description: The device as it is named there; empty where only the service knows.
      type: str
    detail:
      description: The unit that turns it on, or what the service does.
      type: str
    done:
      description: What was done about it, or in check mode would be; empty with O(state=kept).
      type: str
  sample:
    - kind: fstab
      where: /etc/fstab:7
      device: /swapfile
      detail: swapfile.swap
      done: commented
steps:
  description: What was done, or in check mode would be, in order.
  returned: always
  type: list
  elements: str
  sample:
    - comment the swap lines of /etc/fstab
    - have systemd read its files again
    - swapoff /swapfile
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap import SwapFacts, read_swap
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_off import Hands, SwapError, take
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_plan import (
    Step,
    as_text,
    keep_complaint,
    leftover_complaint,
    memory_complaint,
    missing_memory,
    plan,
    unexplained,
    what_is_done,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError

ROOT = "/"
ROUNDS = 3  # a reload may bring up a unit that nothing told of before

SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["disabled", "kept"], "default": "disabled"},
    "kubelet_fail_swap_on": {"type": "bool"},
    "force": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 300},
    **LEDGER_OPTIONS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    if module.params["timeout"] < 1:
        module.fail_json(msg=f"timeout is {module.params['timeout']}; it must be at least 1 second")
    try:
        facts = read_swap(ROOT, module.run_command)
        if module.params["state"] == "kept":
            keep(module, facts)
        else:
            disable(module, facts)
    except (SwapError, LedgerError, UnitError, OSError, ValueError) as error:
        module.fail_json(msg=f"{error}")


def keep(module: AnsibleModule, facts: SwapFacts) -> None:
    complaint = keep_complaint(facts) if module.params["kubelet_fail_swap_on"] else ""
    if complaint:
        module.fail_json(msg=complaint, **report(facts, ()))
    lines = as_text(facts.lines())
    module.exit_json(changed=False, diff={"before": lines, "after": lines}, **report(facts, ()))


def disable(module: AnsibleModule, before: SwapFacts) -> None:
    if missing_memory(before) and not module.params["force"]:
        module.fail_json(msg=memory_complaint(before), **report(before, ()))
    warning = unexplained(before)
    if warning:
        module.warn(warning)
    steps = list(plan(before))
    after = SwapFacts((), (), before.available_kib) if module.check_mode else turn_off(module, before, steps)
    result = report(before, tuple(steps))
    if not after.off:
        module.fail_json(msg=leftover_complaint(after), changed=bool(steps), **result)
    diff = {"before": as_text(before.lines()), "after": as_text(after.lines())}
    module.exit_json(changed=bool(steps), diff=diff, **result)


def turn_off(module: AnsibleModule, facts: SwapFacts, steps: list[Step]) -> SwapFacts:
    """Take the steps and look again; what only shows then is taken care of too, and added to the steps."""
    ledger = Ledger(module.params["state_dir"], module.params["owner"])
    hands = Hands(ROOT, ledger, Systemd(module.run_command, ROOT), run_for, module.params["timeout"])
    now: tuple[Step, ...] = tuple(steps)
    for _round in range(ROUNDS):
        if not now:
            break
        take(now, facts, hands)
        facts = read_swap(ROOT, module.run_command)
        now = plan(facts)
        steps += [step for step in now if step not in steps]
    return facts


def report(facts: SwapFacts, steps: tuple[Step, ...]) -> dict[str, Any]:
    sources = [{**asdict(source), "done": what_is_done(source) if steps else ""} for source in facts.sources]
    return {
        "active_before": [asdict(device) for device in facts.active],
        "persistent_sources": sources,
        "steps": [str(step) for step in steps],
    }


if __name__ == "__main__":
    main()
