# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Take the steps of a plan on a node: the only file that changes anything about swap.

Every step is noted in the ledger before it is taken. No state is carried from step to step or run to
run: whoever is killed here looks at the node again and finds the rest still to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import NOT_FOUND, TIMED_OUT
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapDevice, SwapFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_parse import comment_fstab
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_plan import Step
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_units import below
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, record_after

RunFor = Callable[[list[str], float], tuple[int, str, str]]


class SwapError(Exception):
    """Swap could not be turned off; the text says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What the steps are taken with."""

    root: str
    ledger: Ledger
    systemd: Systemd
    run_for: RunFor  # a command that is killed after so many seconds; a killed swapoff leaves the device on
    timeout: float  # for each device


def take(steps: Iterable[Step], facts: SwapFacts, hands: Hands) -> None:
    """Take the steps, in order; SwapError (or the ledger's or systemd's error) at the first that fails."""
    devices = {device.name: device for device in facts.active}
    for step in steps:
        if step.action == "comment":
            _comment(step.target, hands)
        elif step.action == "mask":
            _mask(step.target, hands, stop=False)
        elif step.action == "reload":
            hands.systemd.daemon_reload()
        elif step.action == "swapoff":
            _swapoff(devices[step.target], hands)
        else:
            _mask(step.target, hands, stop=True)


def _comment(path: str, hands: Hands) -> None:
    real = below(hands.root, path)
    with open(real, "rb") as stream:
        content = stream.read()
    hands.ledger.write_file(real, comment_fstab(content))


def _mask(name: str, hands: Hands, *, stop: bool) -> None:
    """Mask a unit. The admin's own unit file makes way for the mask and is kept in the ledger."""
    systemd = hands.systemd
    now = systemd.look(name)
    steps = ["stop"] if stop and now.running else []
    if not systemd.has_real_file(name):
        steps.append("mask")
    # Whether swap was on is noted for each device, not here: undoing a mask must not start anything.
    before: dict[str, Any] = {**now.record(), "active": stop and now.running}
    after = {**record_after(now, steps), "active": False}
    if steps:
        hands.ledger.note("unit", name, before, after)
    if "stop" in steps:
        systemd.stop(name, hands.timeout)
    if "mask" in steps:
        systemd.mask(name)
    else:
        hands.ledger.make_link(systemd.admin_path(name), "/dev/null")
        systemd.daemon_reload()


def _swapoff(device: SwapDevice, hands: Hands) -> None:
    before = {"active": True, "priority": device.priority, "type": device.kind}
    hands.ledger.note("swap", device.name, before, {"active": False})
    code, out, err = hands.run_for(["swapoff", device.name], hands.timeout)
    if code == 0:
        return
    said = (err or out).strip()
    if code == TIMED_OUT:
        raise SwapError(
            f"swapoff {device.name} did not end within {hands.timeout:g} s and was stopped; the device is still on. "
            "What it brought back stays in memory, so running again goes on from there; or give it a longer timeout."
        )
    if device.name.endswith(" (deleted)"):
        raise SwapError(
            f"the swap file {device.name} was deleted while in use ({said}): only a reboot turns it off. "
            "Nothing turns it on again after that."
        )
    if code == NOT_FOUND:
        raise SwapError(f"swapoff can't be run ({said}); install util-linux (Debian: the package mount)")
    raise SwapError(f"swapoff {device.name} failed with code {code}: {said}")
