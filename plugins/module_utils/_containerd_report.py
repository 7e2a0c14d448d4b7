# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is told about a decision: the changed lines and the changed keys. A config may hold passwords, so no more."""

from __future__ import annotations

import difflib
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_decide import Decision
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import dotted


def changed_keys(decision: Decision) -> list[dict[str, Any]]:
    return [{"key": dotted(c.path), "before": c.before, "after": c.after} for c in decision.changes]


def differences(decision: Decision) -> list[dict[str, str]]:
    """Ansible's diff: of an edited file only the lines that change, of a repaired one what was left out."""
    broken = {one.path: one for one in decision.broken}
    result = []
    for path, after in decision.edits.items():
        before = decision.originals[path]
        if path in broken:
            before = broken[path].salvage.data
        text = changed_lines(path, before, after)
        if path in broken:
            text = (
                f"--- {path} (can't be read)\n+++ {path} (repaired)\n"
                + "".join(f"-{dropped}\n" for dropped in broken[path].salvage.dropped)
                + text
            )
        result.append({"before_header": path, "after_header": path, "prepared": text})
    return result


def changed_lines(path: str, before: bytes | None, after: bytes) -> str:
    """A unified diff without context, which might show a neighbour's secret; each hunk names its table."""
    old = _lines(before or b"")
    new = _lines(after)
    names = (path if before is not None else "/dev/null", path)
    result = []
    for line in difflib.unified_diff(old, new, *names, lineterm="", n=0):
        result.append(line + _table_of(line, new) if line.startswith("@@") else line)
    return "".join(f"{line}\n" for line in result)


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").splitlines()


def _table_of(hunk: str, lines: list[str]) -> str:
    """The header of the table that a hunk's first new line belongs to."""
    first = int(hunk.split("+")[1].split(" ")[0].split(",")[0])
    for line in reversed(lines[: max(first - 1, 0)]):
        if line.lstrip().startswith("[") and line.rstrip().endswith("]"):
            return f" {line.strip()}"
    return ""
