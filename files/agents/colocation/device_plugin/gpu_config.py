# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the configuration may say about GPUs on offer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from colocation.common.config import Between
from colocation.device_plugin.reclaim_config import absolute_or_none

_KIND = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z]([-_A-Za-z0-9]*[A-Za-z0-9])?")


def cdi_kind(text: str) -> str | None:
    """A check: what CDI calls a kind of device, or nothing."""
    return (
        None if not text or _KIND.fullmatch(text) else f'"{text}" is no kind of CDI devices, such as "nvidia.com/gpu"'
    )


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One resource that is memory of the node's GPUs."""

    unit_mib: Annotated[int, Between(1, 1 << 20)] = 1  # a device; the same on every node of a cluster
    allow_multi_gpu: bool = False  # a container may get units of several GPUs where one is too small
    mig: Literal["skip", "list"] = "skip"  # GPUs in MIG mode: leave them out, or offer each of their instances
    poll_seconds: Annotated[float, Between(0.1, 3600)] = 5.0
    rest_seconds: Annotated[float, Between(0, 86_400)] = 60.0  # a GPU is well again when so long nothing was wrong
    topology_hints: bool = False  # tell the kubelet each GPU's NUMA node, by which it then may refuse
    cdi_kind: Annotated[str, cdi_kind] = ""  # name the GPUs to the runtime as CDI devices of this kind, too
    count_resource: str = "doslab.io/gpu-count"  # on the Node's status; "" for none
    core_resource: str = "doslab.io/gpu-core"  # 100 a GPU; "" for none
    double_file: Annotated[str, absolute_or_none] = ""  # GPUs as a file describes them, for machines without any
