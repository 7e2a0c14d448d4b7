# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Configuration: YAML text in; a typed value out, or everything that is wrong with the text.

The schema is a frozen dataclass: a field's name is the key, its type is what may stand there, its default is what an
absent key means (without one the key is required). `Annotated[type, check]` narrows a value; a check is called with the
value and returns a complaint or nothing. What several keys must agree on is `complaints()` of the dataclass.

Known types: str, bool, int, float, Literal, Optional, tuple[X, ...], Mapping[str, X], dataclasses of these, and Any
for what a check judges alone. A key that is no name in Python is in the metadata: `field(metadata={KEY: "pin-cpu"})`.
Files, signals and reloads are none of this file's business.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from colocation.common.yaml_tree import Entry, Tree, YamlProblem, parse

T = TypeVar("T")
Check = Callable[[Any], "str | None"]
KEY = "key"
_REFUSED: Any = object()  # in the place of a value that was complained about


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    line: int
    key: str  # dotted, as in "status.port"; empty for the whole file
    complaint: str

    def __str__(self) -> str:
        return f"{self.key}: {self.complaint}" if self.key else self.complaint


class ConfigError(Exception):
    """The text is no configuration; `problems` has all that is wrong with it."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        self.file = file
        self.problems = problems
        super().__init__("\n".join(f"{file}:{problem.line}: {problem}" for problem in problems))


@dataclass(frozen=True, slots=True)
class Between:
    """A check: a number within limits, both included."""

    low: float
    high: float = math.inf

    def __call__(self, value: float) -> str | None:
        if self.low <= value <= self.high:
            return None
        limits = f"between {self.low} and {self.high}" if math.isfinite(self.high) else f"at least {self.low}"
        return f"must be {limits}, not {value}"


def absolute(path: str) -> str | None:
    """A check: a path from the root on."""
    return None if path.startswith("/") else f'"{path}" does not begin with /'


def ip_address(text: str) -> str | None:
    """A check: an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return f'"{text}" is no IP address'
    return None


def load(schema: type[T], text: str, file: str) -> T:
    """The configuration in a text; `file` is only what errors call it."""
    try:
        tree = parse(text)
    except YamlProblem as problem:
        raise ConfigError(file, (Problem(problem.line, "", problem.complaint),)) from None
    reader = _Reader()
    value = reader.section(schema, tree if tree.value is not None else Tree({}, 1), "")
    if reader.problems:
        raise ConfigError(file, tuple(reader.problems))
    return typing.cast("T", value)


class _Reader:
    """Walks tree and schema together and collects what does not fit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def refuse(self, tree: Tree, key: str, complaint: str) -> Any:
        self.problems.append(Problem(tree.line, key, complaint))
        return _REFUSED

    def section(self, schema: type[Any], tree: Tree, key: str) -> Any:
        if not isinstance(tree.value, dict):
            return self.refuse(tree, key, f"must be a mapping of {_listed(_fields(schema))}, not {_shown(tree)}")
        hints = typing.get_type_hints(schema, include_extras=True)
        names = {_key(field): field.name for field in dataclasses.fields(schema)}
        before = len(self.problems)
        values: dict[str, Any] = {}
        for name, entry in tree.value.items():
            if name in names:
                values[names[name]] = self.value(hints[names[name]], entry.tree, _inside(key, name))
            else:
                place = Tree(None, entry.line)
                self.refuse(place, _inside(key, name), f"unknown key; {_nearest(name, _fields(schema))}")
        for field in dataclasses.fields(schema):
            if _key(field) not in tree.value and _required(field):
                self.refuse(tree, _inside(key, _key(field)), "is missing")
        if len(self.problems) > before:
            return _REFUSED
        made = schema(**values)
        for name, complaint in _agreement(made):
            entry = tree.value.get(name)
            self.refuse(entry.tree if entry else tree, _inside(key, name), complaint)
        return made

    def value(self, wanted: Any, tree: Tree, key: str) -> Any:
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted is Any:
            return _plain(tree)
        if origin is typing.Annotated:
            return self.checked(arguments[0], arguments[1:], tree, key)
        if origin in (typing.Union, types.UnionType):
            return None if tree.value is None else self.value(_without_none(arguments), tree, key)
        if origin is typing.Literal:
            return self.choice(arguments, tree, key)
        if origin is tuple:
            return self.items(arguments[0], tree, key)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self.mapping(arguments, tree, key)
        if dataclasses.is_dataclass(wanted):
            return self.section(typing.cast("type[Any]", wanted), tree, key)
        return self.scalar(wanted, tree, key)

    def checked(self, wanted: Any, checks: tuple[Check, ...], tree: Tree, key: str) -> Any:
        value = self.value(wanted, tree, key)
        if value is _REFUSED:
            return value
        for check in checks:
            complaint = check(value)
            if complaint:
                return self.refuse(tree, key, complaint)
        return value

    def choice(self, choices: tuple[Any, ...], tree: Tree, key: str) -> Any:
        if not isinstance(tree.value, dict | list) and tree.value in choices:
            return tree.value
        near = _nearest(tree.value, choices) if isinstance(tree.value, str) else f"it may be {_listed(choices)}"
        return self.refuse(tree, key, f"{_shown(tree)} is no choice here; {near}")

    def items(self, wanted: Any, tree: Tree, key: str) -> Any:
        if not isinstance(tree.value, list):
            return self.refuse(tree, key, f"must be a list, not {_shown(tree)}")
        return tuple(self.value(wanted, item, f"{key}[{number}]") for number, item in enumerate(tree.value))

    def mapping(self, wanted: tuple[Any, ...], tree: Tree, key: str) -> Any:
        if not isinstance(tree.value, dict):
            return self.refuse(tree, key, f"must be a mapping, not {_shown(tree)}")
        made = {}
        for name, entry in tree.value.items():
            place = _inside(key, name)
            self.value(wanted[0], Tree(name, entry.line), place)
            made[name] = self.value(wanted[1], entry.tree, place)
        return types.MappingProxyType(made)

    def scalar(self, wanted: Any, tree: Tree, key: str) -> Any:
        value = tree.value
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 1 << 1000 else math.inf
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            hint = "; put it in quotes" if wanted is str and isinstance(value, bool | int | float) else ""
            return self.refuse(tree, key, f"must be {_NAMES.get(wanted, wanted)}, not {_shown(tree)}{hint}")
        if wanted is float and not math.isfinite(value):
            return self.refuse(tree, key, f"must be a finite number, not {value}")
        return value


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def _agreement(section: Any) -> Iterator[tuple[str, str]]:
    complaints = getattr(section, "complaints", None)
    return iter(complaints()) if complaints else iter(())


def _fields(schema: type[Any]) -> tuple[str, ...]:
    return tuple(_key(field) for field in dataclasses.fields(schema))


def _key(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get(KEY, field.name))


def _plain(tree: Tree) -> Any:
    """A tree without its lines."""
    if isinstance(tree.value, dict):
        return {name: _plain(entry.tree) for name, entry in tree.value.items()}
    return [_plain(item) for item in tree.value] if isinstance(tree.value, list) else tree.value


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _without_none(arguments: tuple[Any, ...]) -> Any:
    (wanted,) = (argument for argument in arguments if argument is not types.NoneType)
    return wanted


def _inside(key: str, name: str) -> str:
    plain = name.replace("_", "").replace("-", "").isalnum()
    shown = name if plain else f'"{name}"'
    return f"{key}.{shown}" if key else shown


def _nearest(name: str, valid: tuple[Any, ...]) -> str:
    near = difflib.get_close_matches(name.lower(), [str(choice) for choice in valid], 1, 0.5)
    return f'did you mean "{near[0]}"?' if near else f"it may be {_listed(valid)}"


def _listed(names: tuple[Any, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _shown(tree: Tree) -> str:
    value = tree.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else text[:57] + "…"


__all__ = ["KEY", "Between", "Check", "ConfigError", "Entry", "Problem", "absolute", "ip_address", "load"]
