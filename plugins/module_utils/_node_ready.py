# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Is a node fit for pods? Judged from the Node object; a Ready condition older than the question proves nothing.

The kubelet renews its lease every few seconds while it is in touch with the API server, and the condition only when
it changes or every five minutes. So the lease tells that the kubelet lives now, the condition what it says.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    reason: str  # why not; empty when ready


def judge(node: dict[str, Any], lease: dict[str, Any], since: float) -> Readiness:
    """Ready, by a kubelet that has spoken since then (seconds since 1970, by the node's clock)."""
    renewed = seconds(str(lease.get("spec", {}).get("renewTime", "")))
    if renewed is None or renewed < since:
        last = lease.get("spec", {}).get("renewTime", "never")
        return Readiness(False, f"its kubelet has not spoken to the API server since; last: {last}")
    for condition in node.get("status", {}).get("conditions", []):
        if condition.get("type") == "Ready":
            if condition.get("status") == "True":
                return Readiness(True, "")
            return Readiness(False, f"{condition.get('reason', 'NotReady')}: {condition.get('message', '')}")
    return Readiness(False, "its Node has no Ready condition yet")


def seconds(text: str) -> float | None:
    """Seconds since 1970 of an API time; None where it is not one."""
    try:
        moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp()
