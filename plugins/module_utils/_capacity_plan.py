# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What has to change on one Node so that its extended resources are as wished, and what speaks against it.

A plan is a JSON patch whose `test` operations name what was read, so that it fails (422) when somebody else was
faster, and a new plan is made from what stands then. A wish that is met gives an empty plan.

Capacity is what counts: the kubelet derives allocatable from it at its next sync, within ten seconds. A removal takes
the key out of allocatable at once too, or pods would be placed for those seconds on what is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import pointer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_resources import (
    DEVICE_PLUGIN,
    Document,
    Holder,
    Resource,
    extended_resources,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import (
    MOST,
    Quantity,
    QuantityError,
    parse_quantity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._resource_name import is_extended, name_problem

PRESENT, ABSENT, EXACT = "present", "absent", "exact"
Operation = dict[str, Any]


class WishError(ValueError):
    """What is asked for can't be; the text says which part, and why."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How the extended resources of a node should be."""

    state: str
    resources: Mapping[str, Quantity]  # with `absent` the amounts mean nothing
    force: bool = False

    def removes(self, name: str) -> bool:
        """Whether a resource that a node has is to go."""
        return name in self.resources if self.state == ABSENT else self.state == EXACT and name not in self.resources


@dataclass(frozen=True, slots=True)
class Plan:
    """The change of one Node."""

    operations: tuple[Operation, ...] = ()
    removed: tuple[Resource, ...] = ()
    replaced: tuple[Resource, ...] = ()
    before: dict[str, str] = field(default_factory=dict)  # capacity of the keys that change
    after: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.operations)

    def waits_for_kubelet(self) -> bool:
        """A removal now would be undone: the kubelet still writes the count of a plugin that went."""
        return any(resource.letting_go for resource in self.removed)


def make_wish(state: str, resources: Mapping[str, Any], force: bool = False) -> Wish:
    """A wish from what a user wrote, or WishError with everything that is wrong with it."""
    problems = []
    amounts = {}
    for name, value in resources.items():
        # What has a bad name got there somehow, and must be able to go.
        problem = "" if state == ABSENT and is_extended(str(name)) else name_problem(str(name))
        if problem:
            problems.append(problem)
        elif state != ABSENT:
            try:
                amounts[str(name)] = _wished_amount(str(name), value)
            except WishError as error:
                problems.append(str(error))
        else:
            amounts[str(name)] = Quantity(0)
    if problems:
        raise WishError("; ".join(problems))
    if not amounts and state != EXACT:
        raise WishError(f"state={state} needs resources")
    return Wish(state, amounts, force)


def _wished_amount(name: str, value: Any) -> Quantity:
    if value is None or isinstance(value, (bool, dict, list)):
        raise WishError(f"{name} needs an amount, and {value!r} is none")
    try:
        amount = parse_quantity(str(value))
    except QuantityError as error:
        raise WishError(f"{name}: {error}") from None
    if not amount.whole:
        raise WishError(f"{name}: {value} is no whole number, as the amount of an extended resource must be")
    if amount.nano < 0 or amount.value > MOST:
        raise WishError(f"{name}: {value} is not between 0 and {MOST}")
    return amount


def make_plan(node: Document, wish: Wish) -> Plan:
    """What to change; nothing where the node is as wished."""
    status = node.get("status") or {}
    there = extended_resources(node)
    removed = tuple(resource for name, resource in there.items() if wish.removes(name))
    wanted = {} if wish.state == ABSENT else wish.resources
    changing = {
        name: amount
        for name, amount in sorted(wanted.items())
        if name not in there or there[name].capacity is None or there[name].amount != amount
    }
    replaced = tuple(there[name] for name in changing if name in there)
    before = {one.name: one.capacity for one in (*removed, *replaced) if one.capacity is not None}
    after = {name: str(amount) for name, amount in changing.items()}
    operations = [operation for resource in removed for operation in _removal(resource)]
    if changing and not status.get("capacity"):
        operations += _first_capacity(status, after)
    else:
        for name, text in after.items():
            operations += _setting(name, there[name].capacity if name in there else None, text)
    return Plan(tuple(operations), removed, replaced, before, after)


def _removal(resource: Resource) -> list[Operation]:
    operations = []
    for part, text in (("capacity", resource.capacity), ("allocatable", resource.allocatable)):
        if text is not None:
            path = pointer("status", part, resource.name)
            operations += [{"op": "test", "path": path, "value": text}, {"op": "remove", "path": path}]
    return operations


def _setting(name: str, old: str | None, new: str) -> list[Operation]:
    """A test for null passes where the key is missing: so a key that appeared meanwhile is noticed too."""
    path = pointer("status", "capacity", name)
    return [{"op": "test", "path": path, "value": old}, {"op": "add", "path": path, "value": new}]


def _first_capacity(status: Document, after: Mapping[str, str]) -> list[Operation]:
    """A Node that no kubelet has filled in has no map to add to."""
    path = pointer("status", "capacity")
    old = status.get("capacity")
    return [{"op": "test", "path": path, "value": old}, {"op": "add", "path": path, "value": dict(after)}]


def live_plugins(plan: Plan) -> list[str]:
    """What speaks against a plan: device plugins that are alive, whose values the kubelet would write back."""
    said = []
    for resource in (*plan.removed, *plan.replaced):
        if resource.live:
            said.append(
                f"{resource.name} belongs to a live device plugin ({resource.allocatable} allocatable), "
                "and the kubelet would write it back within seconds: stop the plugin first"
            )
    return said


def held_by_pods(plan: Plan, held: Mapping[str, Sequence[Holder]]) -> list[str]:
    """What speaks against a removal: the pods that hold it."""
    said = []
    for resource in plan.removed:
        pods = held.get(resource.name)
        if pods:
            named = ", ".join(map(str, pods[:10])) + (f" and {len(pods) - 10} more" if len(pods) > 10 else "")
            said.append(f"{resource.name} is held by {named}: let them end first")
    return said


def unsettled(node: Document, wish: Wish) -> str:
    """Why a node whose capacity is as wished is not finished yet; empty when allocatable has followed."""
    for name, resource in extended_resources(node).items():
        wanted = wish.resources.get(name) if wish.state != ABSENT else None
        if wish.removes(name):
            return f"{name} is there again" if resource.capacity is not None else f"{name} is still allocatable"
        if wanted is not None and (resource.allocatable is None or resource.offered != wanted):
            return f"{name} is {resource.allocatable or 'not'} allocatable yet; has the node a running kubelet?"
    return ""


def written_by_kubelet(plan: Plan) -> bool:
    """Whether the kubelet may write back what the plan changes, so that it has to be watched for a while."""
    return any(resource.owner == DEVICE_PLUGIN for resource in (*plan.removed, *plan.replaced))
