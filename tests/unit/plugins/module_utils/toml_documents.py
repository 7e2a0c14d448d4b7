# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Hypothesis strategies for TOML texts of many spellings, in the shape of containerd's config."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_scalar import Moment

tomllib = pytest.importorskip("tomllib")

NAMES = ["a", "b", "c", "plugins", "io.containerd.grpc.v1.cri", "run c", "é", "options", "1", "x-y_z", "", "ä\t"]


def comparable(value: Any) -> Any:
    """Both readers' values in one form: moments as tomllib reads their text, nan as a word."""
    if isinstance(value, dict):
        return {name: comparable(child) for name, child in value.items()}
    if isinstance(value, list):
        return [comparable(child) for child in value]
    if isinstance(value, Moment):
        return tomllib.loads(f"x = {value.text}")["x"]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else ("float", value)
    return (type(value).__name__, value) if isinstance(value, (bool, int)) else value


def write_name(draw: Any, name: str) -> str:
    forms = [json.dumps(name)]
    if name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        forms.append(name)
    if "'" not in name and "\n" not in name:
        forms.append(f"'{name}'")
    return draw(st.sampled_from(forms))


def write_scalar(draw: Any) -> str:
    fixed = [
        "true", "false", "0", "-17", "1_000", "0xFF", "0o17", "0b1", "1.5", "-2e3", "inf", "nan", "1979-05-27",
        "07:32:00", "1979-05-27T07:32:00Z", "1979-05-27 07:32:00.5", '""', "''", '"a # b"', "'C:\\x'", '"\\u00e9\\n"',
        '"""\nlong\n[not.a.header]\n"""', "'''\nlong\nkey = 1\n'''", '"""a \\\n   b"""', '"é"', '"]"', '"}"',
    ]  # fmt: skip
    return draw(st.sampled_from(fixed))


def write_array(draw: Any, depth: int) -> str:
    items = [write_value(draw, depth + 1) for dummy in range(draw(st.integers(0, 3)))]
    style = draw(st.sampled_from(["flat", "lines", "commented"]))
    if style == "flat" or not items:
        return "[" + draw(st.sampled_from([", ", ",", " , "])).join(items) + draw(st.sampled_from(["", " "])) + "]"
    note = " # a, ] b" if style == "commented" else ""
    lines = [f"  {item}," + note for item in items]
    if style == "lines" and draw(st.booleans()):
        lines[-1] = lines[-1].rstrip(",")
    return "[\n" + "\n".join(lines) + "\n]"


def write_inline(draw: Any, depth: int) -> str:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    entries = []
    for name in names:
        key = write_name(draw, name)
        if draw(st.integers(0, 4)) == 0:
            key += "." + write_name(draw, draw(st.sampled_from(NAMES)))
        entries.append(f"{key} = {write_value(draw, depth + 1)}")
    return "{" + draw(st.sampled_from(["", " "])) + ", ".join(entries) + " }"


def write_value(draw: Any, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["scalar"] * 4 + ["array", "inline"])) if depth < 2 else "scalar"
    if kind == "array":
        return write_array(draw, depth)
    return write_inline(draw, depth) if kind == "inline" else write_scalar(draw)


def write_key(draw: Any, longest: int) -> str:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=longest))
    return draw(st.sampled_from([".", " . "])).join(write_name(draw, name) for name in names)


@st.composite
def texts(draw: Any) -> str:
    """A text in the shape of TOML: mostly valid, sometimes with a table or key twice."""
    lines: list[str] = []
    for dummy in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["header", "array header", "comment", "blank"] + ["key"] * 5))
        indent = draw(st.sampled_from(["", "  ", "\t"]))
        note = draw(st.sampled_from(["", "  # note"]))
        if kind == "header":
            lines.append(f"{indent}[{write_key(draw, 3)}]{note}")
        elif kind == "array header":
            lines.append(f"{indent}[[{write_key(draw, 2)}]]{note}")
        elif kind == "key":
            lines.append(f"{indent}{write_key(draw, 2)}{draw(st.sampled_from([' = ', '=']))}{write_value(draw)}{note}")
        else:
            lines.append("# comment [x] = 1" if kind == "comment" else "")
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return newline.join("\n".join(lines).split("\n")) + draw(st.sampled_from(["", newline]))


@st.composite
def readable_texts(draw: Any) -> str:
    """A valid text that has at least one array with items."""
    items = write_array(draw, 0)
    head = f"items = {items if items.strip('[ ]') else '[1, 2]'}\n"
    lines = draw(texts()).splitlines(keepends=True)
    while True:
        try:
            tomllib.loads(head + "".join(lines))
        except tomllib.TOMLDecodeError:
            lines.pop()
        else:
            return head + "".join(lines)
