# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What kube-scheduler sends to an extender and wants back (k8s.io/kube-scheduler/extender/v1), as JSON.

Go writes the keys as the fields are called, and reads them in any case; so do we. Only names of nodes are taken
(nodeCacheCapable: true): whole nodes are megabytes for each pod, and what is known of them here is newer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colocation.scheduler.pods import Pod, read_pod


class WireError(Exception):
    """This is no question of kube-scheduler; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, and the nodes on which it could run."""

    pod: Pod
    names: Sequence[str]


def read_question(body: bytes, memory_resources: Mapping[str, float]) -> Question:
    """ExtenderArgs."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise WireError(f"the body is no JSON: {problem}") from None
    if not isinstance(document, dict):
        raise WireError("the body is no JSON object, with Pod and NodeNames")
    fields = {name.lower(): value for name, value in document.items()}
    pod, names = fields.get("pod"), fields.get("nodenames")
    if not isinstance(pod, dict):
        raise WireError("Pod is missing, or no object")
    if names is None and fields.get("nodes") is not None:
        raise WireError("whole Nodes were sent; set nodeCacheCapable: true for this extender in kube-scheduler's file")
    if names is None:
        names = []
    if not isinstance(names, list) or not set(map(type, names)) <= {str}:
        raise WireError("NodeNames is no list of names")
    return Question(read_pod(pod, memory_resources), names)


def filter_result(names: Sequence[str], refused: Mapping[str, str]) -> str:
    """ExtenderFilterResult. Refused nodes can't be helped by preemption: what is measured falls only later, and until
    then every try would evict others for nothing."""
    passed = [name for name in names if name not in refused]
    document: dict[str, Any] = {"NodeNames": passed, "FailedNodes": {}, "FailedAndUnresolvableNodes": dict(refused)}
    return json.dumps(document | {"Error": ""}, separators=(",", ":"))


def no_opinion(names: Sequence[str]) -> str:
    """HostPriorityList in which all are equal."""
    return json.dumps([{"Host": name, "Score": 0} for name in names], separators=(",", ":"))
