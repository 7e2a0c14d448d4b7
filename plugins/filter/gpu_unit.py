# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.plugin_utils import _gpu_unit


def gpu_unit(nodes: Iterable[Sequence[Any]], several: bool = False) -> int:
    try:
        lists = [[int(memory) for memory in memories] for memories in nodes]
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"gpu_unit: this is no list of the GPUs of nodes in MiB: {error}") from error
    return _gpu_unit.gpu_unit(lists, several)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_unit": gpu_unit}
