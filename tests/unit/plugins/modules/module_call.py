# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Call a module as Ansible would, inside the test's process, and get its answer."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any
from unittest import mock

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args


def call(main: Callable[[], None], check_mode: bool = False, **params: Any) -> dict[str, Any]:
    """The JSON that the module prints."""
    out = io.StringIO()
    arguments = {**params, "_ansible_check_mode": check_mode, "_ansible_diff": True, "_ansible_remote_tmp": "/tmp"}
    said: list[str] = []  # Ansible keeps warnings for the whole process and shapes them differently by version
    with (
        mock.patch.object(AnsibleModule, "warn", lambda module, text: said.append(text)),
        patch_module_args(arguments),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        main()
    answer: dict[str, Any] = json.loads(out.getvalue())
    return {**answer, "warnings": said}
