# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import from_json
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_host import Expectations, judge


def preflight_findings(
    probe: Mapping[str, Any],
    facts: Mapping[str, Any],
    expected: Mapping[str, Any],
    skip: Sequence[str] = (),
    gpus: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    try:
        result = judge(probe, facts, from_json(Expectations, expected), skip, gpus)
    except ValueError as error:
        raise AnsibleFilterError(f"preflight_findings: {error}") from error
    return asdict(result)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_findings": preflight_findings}
