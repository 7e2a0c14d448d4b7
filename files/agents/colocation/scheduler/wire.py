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

MOST_NAMES = 20_000  # nodes; Kubernetes is made for 5,000
MOST_TEXT = 512  # characters of a pod's namespace, name or UID; they are remembered


class WireError(Exception):
    """This is no question of kube-scheduler; the text says why, and what to do."""

    def __init__(self, why: str, status: int = 400) -> None:
        self.status = status
        super().__init__(why)


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
    if len(names) > MOST_NAMES:
        raise WireError(f"{len(names)} NodeNames; the most is {MOST_NAMES}", 413)
    question = Question(read_pod(pod, memory_resources), names)
    if max(len(question.pod.key), len(question.pod.uid)) > MOST_TEXT:
        raise WireError("the Pod's namespace, name or UID is longer than any API server lets it be", 413)
    return question


def filter_result(names: Sequence[str], refused: Mapping[str, str]) -> str:
    """ExtenderFilterResult. Refused nodes can't be helped by preemption: what is measured falls only later, and until
    then every try would evict others for nothing."""
    passed = [name for name in names if name not in refused]
    document: dict[str, Any] = {"NodeNames": passed, "FailedNodes": {}, "FailedAndUnresolvableNodes": dict(refused)}
    return json.dumps(document | {"Error": ""}, separators=(",", ":"))


def no_opinion(names: Sequence[str]) -> str:
    """HostPriorityList in which all are equal."""
    return json.dumps([{"Host": name, "Score": 0} for name in names], separators=(",", ":"))
