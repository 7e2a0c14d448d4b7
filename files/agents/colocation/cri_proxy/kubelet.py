# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the kubelet does with CPUs by itself."""

from __future__ import annotations

import json
from pathlib import Path

STATIC = (
    "The kubelet's CPU Manager has the policy static and sets cpusets itself, so none are set here; set "
    "cpuManagerPolicy: none in its configuration, remove cpu_manager_state and restart it"
)


def cpu_manager_is_static(folder: str) -> bool:
    """Whether its CPU Manager pins containers, by its own record."""
    try:
        document = json.loads(Path(folder, "cpu_manager_state").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("policyName") == "static"
