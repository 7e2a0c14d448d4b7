# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the agents tell the world: the metrics and event reasons in their code, whatever their configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

AGENTS = Path(__file__).parents[1] / "files" / "agents" / "colocation"
KINDS = ("gauge", "counter", "histogram")
REASON = re.compile(r"Colocation[A-Z][A-Za-z]+")


def metrics() -> dict[str, str]:
    """Each metric with its kind."""
    return {name: kind for tree in _trees() for name, kind in _metrics_of(tree)}


def series() -> set[str]:
    """The names that a query uses: a histogram has three, and none of its own."""
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + suffix for name, kind in metrics().items() for suffix in parts.get(kind, ("",))}


def event_reasons() -> set[str]:
    """Each string that is a reason by its form."""
    nodes = (node for tree in _trees() for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str) and REASON.fullmatch(node.value)}


def _trees() -> Iterator[ast.Module]:
    return (ast.parse(file.read_text(), str(file)) for file in sorted(AGENTS.rglob("*.py")))


def _metrics_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KINDS:
            owner = node.func.value
            if (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) == "registry":
                yield _text(node.args[0], constants), node.func.attr


def _text(node: ast.expr, constants: dict[str, object]) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, constants) + _text(node.right, constants)
    value = constants.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)
    if not isinstance(value, str):
        raise AssertionError(f"the name of a metric in line {node.lineno} can't be read: {ast.unparse(node)}")
    return value
