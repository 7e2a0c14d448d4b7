# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From what is known of a node's swap to the steps that turn it off, now and for good.

Why these steps:

- A line of fstab is commented; that is what people look for, and `swapon -a` obeys it too.
- A .swap unit is masked by its name: that holds whoever pulls it in. zram-generator's units are named
  after the section of its configuration (`dev-zram0.swap`), so a mask is enough, the configuration stays
  as it is, and its compressed file systems go on working.
- A partition found by systemd-gpt-auto-generator has no name to mask: newer systemd (seen with 257) calls
  the unit after a counter (`dev-disk-by\\x2ddiskseq-1\\x2dpart3.swap`), older after a kernel name that may
  move. `systemd.gpt_auto=0` would also take away root, home and boot partitions, and both it and
  `systemd.swap=0` belong to the boot loader. What is left is the only thing that pulls the unit in:
  swap.target is masked, only then.
- A service that makes swap is stopped and masked.
- systemd is told to read its files again, or a device that turns up starts what was loaded before.

Masks and fstab come first: a run that is killed after them leaves a node that a reboot sets right.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_facts import SwapFacts, SwapSource
from ansible_collections.colocation.kubernetes.plugins.module_utils._swap_units import ABOVE_ETC

TARGET = "swap.target"
FSTAB = "/etc/fstab"


@dataclass(frozen=True, slots=True)
class Step:
    action: str  # "comment" | "mask" | "reload" | "swapoff" | "retire"
    target: str

    def __str__(self) -> str:
        return {
            "comment": f"comment the swap lines of {self.target}",
            "mask": f"mask {self.target}",
            "reload": "have systemd read its files again",
            "swapoff": f"swapoff {self.target}",
            "retire": f"stop and mask {self.target}",
        }[self.action]


def plan(facts: SwapFacts) -> tuple[Step, ...]:
    """The steps to take, each once, in order; none when swap is off for good."""
    steps: dict[Step, None] = {}
    for source in facts.sources:
        if source.kind == "fstab":
            steps[Step("comment", FSTAB)] = None
    for source in facts.sources:
        if source.kind in ("unit", "generated", "zram-generator", "gpt-auto"):
            steps[Step("mask", unit_to_mask(source))] = None
    if any(source.kind != "service" for source in facts.sources):
        steps[Step("reload", "systemd")] = None
    for device in facts.active:
        steps[Step("swapoff", device.name)] = None
    for source in facts.sources:
        if source.kind == "service":
            steps[Step("retire", os.path.basename(source.where))] = None
    return tuple(steps)


def unit_to_mask(source: SwapSource) -> str:
    """The unit whose mask keeps a source from working."""
    if source.kind in ("gpt-auto", "zram-generator"):
        return source.detail
    if source.where.startswith(tuple(f"/{directory}/" for directory in ABOVE_ETC)):
        return TARGET  # /etc has no say over these; what pulls them in is the next best
    return os.path.basename(source.where)


def what_is_done(source: SwapSource) -> str:
    """How a source is taken away."""
    if source.kind == "fstab":
        return "commented"
    if source.kind == "service":
        return "stopped and masked"
    if source.kind == "stale":
        return "systemd told to forget it"
    return f"masked {unit_to_mask(source)}"


def missing_memory(facts: SwapFacts) -> int:
    """KiB that memory lacks to take back what is swapped out; 0 when there is room."""
    used = sum(device.used_kib for device in facts.active)
    return max(0, used - facts.available_kib) if used else 0


def memory_complaint(facts: SwapFacts) -> str:
    used = sum(device.used_kib for device in facts.active)
    return (
        f"{_mib(used)} MiB are swapped out and only {_mib(facts.available_kib)} MiB of memory are available: "
        f"{_mib(missing_memory(facts))} MiB are missing. Turning swap off now would make the kernel kill "
        f"processes. Nothing was changed. Stop or move what needs the memory (drain the node), reboot after "
        f"it, or set force=true to try all the same."
    )


def keep_complaint(facts: SwapFacts) -> str:
    """Why a kubelet with failSwapOn would not start here; "" when it would."""
    if facts.off:
        return ""
    return (
        "The kubelet refuses to start while swap is on (failSwapOn is true), and this node keeps swap: "
        f"{'; '.join(facts.lines())}. Either set failSwapOn: false in the kubelet's configuration "
        "(and memorySwap.swapBehavior: LimitedSwap if pods shall use it), or turn swap off with state=disabled."
    )


def leftover_complaint(facts: SwapFacts) -> str:
    """What is still on after everything was done."""
    return (
        f"Swap is still not off for good: {'; '.join(facts.lines())}. Something turns it on again or refused "
        "to be turned off; look at `systemctl status '*.swap'`, `swapon --show` and the services that call swapon."
    )


def unexplained(facts: SwapFacts) -> str:
    """A word about swap that is on although nothing was found that turns it on at boot."""
    if not facts.active or facts.sources:
        return ""
    names = ", ".join(device.name for device in facts.active)
    return (
        f"{names} was on, but nothing was found that turns it on at boot. If that was not done by hand, "
        "look for a script or service that calls swapon: it would do so again."
    )


def as_text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _mib(kib: int) -> int:
    return -(-kib // 1024)
