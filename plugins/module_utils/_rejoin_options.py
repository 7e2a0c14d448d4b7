# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The option of both halves of a rejoin; the documentation fragment `rejoin_files` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILES: Mapping[str, Any] = {
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "content": {"type": "str", "required": True, "no_log": True},
            "mode": {"type": "int", "default": 0o600},
            "uid": {"type": "int", "default": 0},
            "gid": {"type": "int", "default": 0},
        },
    }
}
