# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Names of resources: which are extended ones, and whether they are names at all.

The API server takes any key in a node's status and any pod that asks for it is then refused, so the rules for pods are
asked here: a DNS prefix and a name, whose quota name `requests.<prefix>/<name>` is one too, outside kubernetes.io.
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_QUOTA = "requests."
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63
_NATIVE = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Whether a key of a node's capacity is an extended resource, good name or not."""
    return "/" in name and _NATIVE not in name


def name_problem(name: str) -> str:
    """Why this is not the name of an extended resource; empty when it is one."""
    if not is_extended(name):
        if "/" in name:
            return f"{name!r} lies in kubernetes.io, which Kubernetes keeps for itself"
        if name in ("cpu", "memory", "pods", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
            return f"{name!r} is a native resource: the kubelet measures it, and nothing else sets it"
        return f"{name!r} has no prefix; an extended resource is called like example.com/gpu"
    prefix, _slash, rest = name.partition("/")
    if name.startswith(_QUOTA):
        return f"{name!r} begins with {_QUOTA!r}, which Kubernetes keeps for quotas"
    if len(_QUOTA + prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix):
        most = _LONGEST_PREFIX - len(_QUOTA)
        return f"the prefix of {name!r} is no DNS name in lower case of at most {most} characters"
    if len(rest) > _LONGEST_NAME or not _NAME.fullmatch(rest):
        return (
            f"what follows the prefix of {name!r} is not 1 to {_LONGEST_NAME} letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends"
        )
    return ""
