# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import REJOIN, STEPS
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import repair_report as make_report


def repair_report(
    hosts: Mapping[str, Mapping[str, Any] | None], last: str = REJOIN, check_mode: bool = False
) -> dict[str, Any]:
    if last not in STEPS:
        raise AnsibleFilterError(f"repair_report: last is {last!r}; it must be one of {', '.join(STEPS)}")
    try:
        return make_report(hosts, last, check_mode)
    except ValueError as error:
        raise AnsibleFilterError(f"repair_report: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"repair_report": repair_report}
