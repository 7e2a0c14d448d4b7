# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The options of agent_release, which its module and its action plugin share."""

from __future__ import annotations

from typing import Any

ARGUMENTS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "root": {"type": "path", "default": "/opt/colocation"},
    "interpreter": {"type": "str", "default": ""},
    "keep": {"type": "int", "default": 3},
    "state_dir": {"type": "path", "default": "/var/lib/colocation"},
    "source": {"type": "str", "default": ""},
    "index": {"type": "str", "default": "", "no_log": True},
    "wheel_dir": {"type": "str", "default": ""},
    "pip": {"type": "str", "default": ""},
    "cache_dir": {"type": "str", "default": ""},
}
ON_THE_NODE = ("state", "root", "interpreter", "keep", "state_dir")
