# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The options of modules that keep a ledger; the documentation fragment `ledger` describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import DEFAULT_OWNER, DEFAULT_STATE_DIR

STATE_DIR: Mapping[str, Any] = {"state_dir": {"type": "path", "default": DEFAULT_STATE_DIR}}
OWNER: Mapping[str, Any] = {"owner": {"type": "str", "default": DEFAULT_OWNER}}
LEDGER_OPTIONS: Mapping[str, Any] = {**OWNER, **STATE_DIR}
