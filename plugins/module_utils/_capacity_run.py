# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Carries a wish out on many nodes at a time, over connections that are kept, and tells each node's outcome apart.

Each node is read, planned, patched; where somebody else was faster it is read again. With a time to wait, all nodes are
then watched together until the kubelets have followed: a resource that a kubelet writes back is removed again, and one
whose plugin went only just now is removed when the kubelet lets go of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import (
    Plan,
    Wish,
    held_by_pods,
    live_plugins,
    make_plan,
    unsettled,
    written_by_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    JSON_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import (
    FIELD_MANAGER,
    Document,
    extended_resources,
    holders,
)

WORKERS = 16
CONFLICTS = 10  # how often others may be faster
UNANSWERED = 3  # how often a change may stay without an answer
PAUSE = 1.0
_RACED = (409, 422)
MAY_BE_UNDONE = (
    "the kubelet wrote this resource, and may write it back for five minutes after its device plugin went; "
    "wait=true sees to it that it stays as wished"
)


class NodeRefused(Exception):
    """A node is left as it is; the text says why."""


@dataclass(slots=True)
class Outcome:
    """What became of one node."""

    name: str
    changed: bool = False
    problem: str = ""  # why it failed
    settled: bool = True  # False: not waited for, and a kubelet has yet to follow
    note: str = ""  # what the user should know although nothing failed
    first: Document | None = None  # as it was before
    last: Document | None = None  # as it was seen last
    watch: bool = False  # the kubelet may write it back
    quiet_since: float = 0.0
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    def result(self) -> dict[str, Any]:
        """As the module returns it."""
        there = extended_resources(self.last or {})
        return {
            "node": self.name,
            "changed": self.changed,
            "failed": bool(self.problem),
            "msg": self.problem or self.note,
            "settled": self.settled and not self.problem,
            "capacity": {name: one.capacity for name, one in there.items() if one.capacity is not None},
            "allocatable": {name: one.allocatable for name, one in there.items() if one.allocatable is not None},
        }


def node_path(name: str, *more: str) -> str:
    return api_path("api", "v1", "nodes", name, *more)


class CapacityRun:
    """One call: a wish for some nodes."""

    def __init__(
        self,
        client: KubeClient,
        wish: Wish,
        *,
        dry_run: bool = False,
        wait: float | None = None,
        settle: float = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._wish = wish
        self._dry_run = dry_run
        self._wait = None if dry_run else wait
        self._settle = settle
        self._clock = clock
        self._sleep = sleep

    def run(self, nodes: Mapping[str, Document | None]) -> list[Outcome]:
        """Carry the wish out on nodes by name; a node that was read already need not be read again."""
        outcomes = [Outcome(name, last=node) for name, node in nodes.items()]
        with ThreadPoolExecutor(max_workers=max(1, min(WORKERS, len(outcomes)))) as pool:
            list(pool.map(self._change, outcomes))
            if self._wait is not None:
                self._follow([one for one in outcomes if not one.problem], pool)
        return outcomes

    def _change(self, outcome: Outcome) -> None:
        """One node, once; whatever happens is its own outcome."""
        try:
            self._apply(outcome)
        except NodeRefused as refused:
            outcome.problem = str(refused)
        except ApiError as error:
            outcome.problem = explain(error, outcome.name)

    def _apply(self, outcome: Outcome) -> None:
        node, outcome.last = outcome.last, None
        refused: tuple[Plan, ApiError] | None = None
        unanswered = 0
        for _attempt in range(CONFLICTS):
            node = self._let_go(outcome, node or self._read(outcome, unanswered))
            outcome.last = node
            outcome.first = outcome.first or node
            plan = make_plan(node, self._wish)
            if not plan:
                self._finish(outcome, sent=refused is not None or unanswered > 0)
                return
            if refused is not None and refused[0].operations == plan.operations:
                raise refused[1]  # nothing had changed: it was not a race
            self._object(outcome.name, plan)
            outcome.watch = outcome.watch or written_by_kubelet(plan)
            if self._wait is not None and plan.waits_for_kubelet():
                return  # removed while we follow
            try:
                outcome.last = self._patch(outcome.name, plan)
                self._finish(outcome, sent=True)
                return
            except ApiError as error:
                if error.status in _RACED:
                    refused = (plan, error)
                elif error.sent and (error.status == 0 or error.status >= 500) and unanswered < UNANSWERED:
                    unanswered += 1
                else:
                    raise
            node = None
        raise NodeRefused(f"others changed its resources {CONFLICTS} times while this was tried; run it again")

    def _let_go(self, outcome: Outcome, node: Document) -> Document:
        """A plugin that has just gone looks alive until the kubelet writes its Node again, which `wait` waits for."""
        end = self._clock() + self._settle
        while (
            self._wait is not None
            and not self._wish.force
            and self._clock() < end
            and live_plugins(make_plan(node, self._wish))
        ):
            self._sleep(PAUSE)
            node = self._read(outcome, 0)
        return node

    def _read(self, outcome: Outcome, unanswered: int) -> Document:
        try:
            return self._client.get(node_path(outcome.name))
        except ApiError as error:
            if unanswered:
                raise NodeRefused(
                    f"the change was sent and not answered, so it may have been made or not; run it again. {error}"
                ) from None
            raise

    def _object(self, name: str, plan: Plan) -> None:
        """Refuse what would be undone or would hurt, unless forced."""
        if self._wish.force:
            return
        said = live_plugins(plan)
        if plan.removed:
            said += held_by_pods(plan, holders(self._pods(name)))
        if said:
            raise NodeRefused(f"{'; '.join(said)}. force=true does it all the same")

    def _pods(self, name: str) -> list[dict[str, Any]]:
        try:
            return self._client.items(api_path("api", "v1", "pods"), field_selector=f"spec.nodeName={name}")
        except ApiError as error:
            if error.status == 403:
                raise NodeRefused(
                    f"whether pods hold what is to be removed can't be seen: {error.message}. "
                    "Allow listing pods, or use force=true"
                ) from None
            raise

    def _patch(self, name: str, plan: Plan) -> Document:
        operations = list(plan.operations)
        return self._client.patch(
            node_path(name, "status"), operations, JSON_PATCH, field_manager=FIELD_MANAGER, dry_run=self._dry_run
        )

    def _finish(self, outcome: Outcome, *, sent: bool) -> None:
        """The node's capacity is as wished; say what changed since it was first seen."""
        whole = make_plan(outcome.first or {}, self._wish)
        outcome.changed = sent and bool(whole)
        if outcome.changed:
            outcome.before, outcome.after = whole.before, whole.after
        outcome.quiet_since = self._clock()
        if self._wait is None and not self._dry_run:
            undone = outcome.watch and outcome.changed
            outcome.settled = not undone and not unsettled(outcome.last or {}, self._wish)
            outcome.note = MAY_BE_UNDONE if undone else ""

    def _follow(self, pending: list[Outcome], pool: ThreadPoolExecutor) -> None:
        """Watch until all have settled or the time is over."""
        end = self._clock() + (self._wait or 0)
        while pending:
            reasons = list(pool.map(self._step, pending))
            waiting = [(one, why) for one, why in zip(pending, reasons, strict=True) if why and not one.problem]
            if self._clock() >= end:
                for outcome, why in waiting:
                    outcome.problem = f"not settled within {self._wait:g} s: {why}"
                return
            pending = [one for one, _why in waiting]
            if pending:
                self._sleep(min(PAUSE, max(0.0, end - self._clock())))

    def _step(self, outcome: Outcome) -> str:
        """Look once; why it is not over yet, or nothing."""
        try:
            node = self._client.get(node_path(outcome.name))
            outcome.last = node
            plan = make_plan(node, self._wish)
            outcome.watch = outcome.watch or written_by_kubelet(plan)
            if plan.waits_for_kubelet():
                names = ", ".join(one.name for one in plan.removed if one.letting_go)
                return (
                    f"the kubelet still writes {names}: its device plugin went less than five minutes ago, "
                    "or is alive with unhealthy devices only"
                )
            if plan:
                self._apply(outcome)
        except NodeRefused as refused:
            outcome.problem = str(refused)
            return ""
        except ApiError as error:
            if error.status == 404 or error.final:
                outcome.problem = explain(error, outcome.name)
            return str(error)
        quiet = self._clock() - outcome.quiet_since
        why = unsettled(outcome.last or {}, self._wish)
        if not why and outcome.watch and quiet < self._settle:
            why = f"it is as wished, and watched for {self._settle:g} s whether the kubelet writes it back"
        return why


def explain(error: ApiError, name: str) -> str:
    """An API error as a user of the module needs it."""
    if error.status == 404:
        return f"there is no node {name!r}"
    if error.status == 403:
        return f"{error.message}; it takes the right to get nodes and to patch nodes/status"
    if error.status == 401:
        return "the API server does not accept the credentials: they have expired, or are not of this cluster"
    causes = "; ".join(cause.message for cause in error.causes)
    return f"{error}{f' ({causes})' if causes and causes not in str(error) else ''}"


def failures(outcomes: Sequence[Outcome]) -> str:
    """The summary of those that failed; empty when none did."""
    failed = [one for one in outcomes if one.problem]
    if not failed:
        return ""
    told = "; ".join(f"{one.name}: {one.problem}" for one in failed[:5])
    more = f"; and {len(failed) - 5} more, see results" if len(failed) > 5 else ""
    return f"{len(failed)} of {len(outcomes)} nodes failed. {told}{more}"
