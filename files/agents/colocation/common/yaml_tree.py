# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""YAML text to plain values that know their line.

Stricter than YAML: one document, text keys, each key once, no aliases (a configuration needs none, and they can make a
small text large), no tags of its own, no dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml


class YamlProblem(Exception):
    """The text can't be read."""

    def __init__(self, line: int, complaint: str) -> None:
        self.line = line
        self.complaint = complaint
        super().__init__(f"{line}: {complaint}")


@dataclass(frozen=True, slots=True)
class Tree:
    """A value and the line it begins at; `dict[str, Entry]` and `list[Tree]` are its branches."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What a key stands for; its own line may come before the value's."""

    tree: Tree
    line: int


class _Loader(yaml.SafeLoader):
    """Refuses aliases where they are met."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise YamlProblem(self.line + 1, "aliases (*name) are not read here")
        return super().compose_node(parent, index)


_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str")}


def parse(text: str) -> Tree:
    """The tree of a text; an empty text is a Tree of None."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return Tree(None, 1) if node is None else _tree(loader, node)
    except yaml.MarkedYAMLError as problem:
        said = " ".join(part for part in (problem.context, problem.problem) if part)
        raise YamlProblem(_line(problem.problem_mark or problem.context_mark), f"is no YAML: {said}") from None
    except (yaml.YAMLError, ValueError) as problem:  # a character that YAML forbids; a number that is none
        raise YamlProblem(1, f"is no YAML: {problem}") from None
    except RecursionError:
        raise YamlProblem(1, "is nested too deeply") from None


def _tree(loader: yaml.SafeLoader, node: yaml.Node) -> Tree:
    line = _line(node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return Tree(_entries(loader, node), line)
    if isinstance(node, yaml.SequenceNode):
        return Tree([_tree(loader, item) for item in node.value], line)
    if node.tag == "tag:yaml.org,2002:timestamp":
        return Tree(node.value, line)  # a date to YAML; a text to us
    if node.tag not in _SCALARS:
        raise YamlProblem(line, f"the tag {node.tag} is not read here")
    return Tree(loader.construct_object(node), line)


def _entries(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for name_node, value_node in node.value:
        line = _line(name_node.start_mark)
        if not isinstance(name_node, yaml.ScalarNode) or name_node.tag != "tag:yaml.org,2002:str":
            raise YamlProblem(line, "a key must be a text; put it in quotes")
        if name_node.value in entries:
            raise YamlProblem(line, f'the key "{name_node.value}" stands here for the second time')
        entries[name_node.value] = Entry(_tree(loader, value_node), line)
    return entries


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1
