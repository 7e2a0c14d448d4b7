# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Packs the scheduler's extender on the controller; no host is asked anything."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import BuildFailed, default_cache
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._extender_code import extender_code

OURS = Path(__file__).resolve().parents[2] / "files" / "agents"
ARGUMENTS = {"cache_dir": {"type": "path", "default": ""}}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        cache = Path(options["cache_dir"]).expanduser() if options["cache_dir"] else default_cache(os.environ)
        try:
            code = extender_code(OURS, cache.absolute())
        except BuildFailed as problem:
            raise AnsibleActionFail(str(problem)) from problem
        content = base64.b64encode(code.content).decode("ascii")
        return result | {"changed": False, "path": code.path, "content": content, "sha256": code.sha256}
