# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_probe import (
    choose_python,
    parse_probe,
)


def preflight_python(result: Mapping[str, Any]) -> str:
    probe = parse_probe(result)
    chosen = choose_python(probe) if probe.uid == 0 else None
    return chosen.path if chosen else ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_python": preflight_python}
