# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Labels of a Node: which to write so that some are there, or are gone.

A label that says something else than ours was changed by somebody, so it is not removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEPT = ("kubernetes.io", "k8s.io")


def label_problem(name: str, value: str) -> str:
    """Why this is no label that a node may have of us; empty when it is one."""
    prefix, slash, rest = name.rpartition("/")
    if not _NAME.fullmatch(rest) or (slash and not _PREFIX.fullmatch(prefix)):
        return f"{name!r} is no name of a label, such as example.com/name"
    if any(prefix == kept or prefix.endswith(f".{kept}") for kept in _KEPT):
        return f"{name!r} lies in {prefix}, which Kubernetes keeps for itself"
    if not _VALUE.fullmatch(value):
        return f"{value!r} is no value of a label: up to 63 letters, digits, '-', '_' and '.', none of these at an end"
    return ""


def changes(standing: Mapping[str, str], labels: Mapping[str, str], present: bool) -> dict[str, str | None]:
    """What to patch; None takes a label away."""
    if present:
        return {name: value for name, value in labels.items() if standing.get(name) != value}
    return {name: None for name, value in labels.items() if standing.get(name) == value}
