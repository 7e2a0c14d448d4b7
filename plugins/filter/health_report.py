# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import SEVERITIES
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import health_report as make_report

LEVELS = (*SEVERITIES, "never")


def health_report(hosts: Mapping[str, Mapping[str, Any] | None], fail_on: str = "critical") -> dict[str, Any]:
    if fail_on not in LEVELS:
        raise AnsibleFilterError(f"health_report: fail_on is {fail_on!r}; it must be one of {', '.join(LEVELS)}")
    try:
        return make_report(hosts, fail_on)
    except ValueError as error:
        raise AnsibleFilterError(f"health_report: {error}") from error


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"health_report": health_report}
