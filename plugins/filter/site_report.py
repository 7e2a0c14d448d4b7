# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import SEVERITIES
from ansible_collections.colocation.kubernetes.plugins.module_utils._site_report import (
    NEVER,
    failed,
    read_site,
    site_lines,
)

LEVELS = (*SEVERITIES, NEVER)


def site_report(
    healths: Mapping[str, Mapping[str, Any] | None],
    capacities: Mapping[str, Mapping[str, Any] | None],
    groups: Mapping[str, Sequence[str]],
    check_mode: bool = False,
    fail_on: str = "critical",
) -> dict[str, Any]:
    if fail_on not in LEVELS:
        raise AnsibleFilterError(f"site_report: fail_on is {fail_on!r}; it must be one of {', '.join(LEVELS)}")
    try:
        unreachable, nodes = groups.get("preflight_unreachable", ()), groups.get("kube_node", ())
        site = read_site(healths, capacities, unreachable, nodes, check_mode)
    except ValueError as error:
        raise AnsibleFilterError(f"site_report: {error}") from error
    counting = () if fail_on == NEVER else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return {
        "lines": site_lines(site),
        "nodes": {host: asdict(node) for host, node in site.nodes.items()},
        "failed": [] if fail_on == NEVER else failed(site, counting),
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"site_report": site_report}
