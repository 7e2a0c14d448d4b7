# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import REJOIN, STEPS
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_ladder import foretell, next_step, why_not
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import finding_of


def repair_step(
    health: Mapping[str, Any], taken: Sequence[str] = (), last: str = REJOIN, foretold: bool = False
) -> dict[str, str]:
    if last not in STEPS:
        raise AnsibleFilterError(f"repair_step: last is {last!r}; it must be one of {', '.join(STEPS)}")
    if "findings" not in health:
        return {"step": "", "why": ""}
    try:
        findings = [finding_of(value) for value in health["findings"]]
    except ValueError as error:
        raise AnsibleFilterError(f"repair_step: {error}") from error
    if foretold:
        return {"step": next((step for step in foretell(findings, last) if step not in taken), ""), "why": ""}
    step = next_step(findings, taken, last)
    return {"step": step, "why": "" if step else why_not(findings, taken, last)}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"repair_step": repair_step}
