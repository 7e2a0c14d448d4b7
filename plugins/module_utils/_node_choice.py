# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which nodes a call is about: those that are named, those that labels select, or all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient, api_path

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST = 253


def bad_names(names: Sequence[str]) -> list[str]:
    """Those that can't be the name of a node."""
    return [name for name in names if len(name) > _LONGEST or not _NAME.fullmatch(name)]


def choose_nodes(
    client: KubeClient, names: Sequence[str], label_selectors: Sequence[str]
) -> dict[str, dict[str, Any] | None]:
    """Nodes by name: without an object where it was named and has yet to be read."""
    if names:
        return dict.fromkeys(names)
    items = client.items(api_path("api", "v1", "nodes"), label_selector=",".join(label_selectors))
    return {node["metadata"]["name"]: node for node in items}
