# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import from_json
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_cluster import (
    HostResult,
    all_findings,
    not_looked_at,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_report import make_report


def preflight_report(
    results: Mapping[str, Mapping[str, Any] | None], groups: Mapping[str, Sequence[str]], skip: Sequence[str] = ()
) -> dict[str, Any]:
    try:
        hosts = [from_json(HostResult, result) if result else not_looked_at(host) for host, result in results.items()]
    except ValueError as error:
        raise AnsibleFilterError(f"preflight_report: {error}") from error
    findings = all_findings(hosts, groups, skip)
    report = make_report(findings, len(hosts))
    return {
        **asdict(report),
        "summary": report.summary,
        "findings": [{"host": host, **asdict(finding)} for host, finding in findings],
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_report": preflight_report}
