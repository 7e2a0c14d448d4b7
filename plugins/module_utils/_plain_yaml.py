# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads the YAML that Kubernetes' own tools write into kubeconfigs, where PyYAML is not installed: on nodes.

Block mappings and sequences, scalars on one line, comments, `{}` and `[]`. Whatever else YAML can do is refused by the
number of its line, never guessed. Every scalar is a text, as with PyYAML's BaseLoader: `true` is "true".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_QUOTED_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+(.*))?$""")
_PLAIN_KEY = re.compile(r"([^\s\"'#&*!|>%@`{}\[\],?].*?)\s*:(?:\s+(.*))?$")
_SINGLE = re.compile(r"'((?:[^']|'')*)'\s*(?:#.*)?$")
_DOUBLE = re.compile(r'("(?:[^"\\]|\\.)*")\s*(?:#.*)?$')
_STRUCTURE = re.compile(r"^[?:-] |: |:$")
_BEYOND = "&*!|>%@`{}[],"


class YamlProblem(ValueError):
    """The text is not YAML, or more of it than is read here; says the line, never its content."""


class MoreYaml(YamlProblem):
    """It may be YAML that is not read here."""


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str

    def refuse(self, why: str, kind: type[YamlProblem] = YamlProblem) -> NoReturn:
        raise kind(f"line {self.number}: {why}")


def load_plain(text: str) -> Any:
    """The document as mappings, lists and texts; None where there is none."""
    lines = _lines(text)
    if not lines:
        return None
    value, rest = _block(lines, 0, lines[0].indent)
    if rest < len(lines):
        lines[rest].refuse("its indentation fits nothing above it")
    return value


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    for number, line in enumerate(text.split("\n"), 1):
        bare = line.rstrip(" \r")
        content = bare.lstrip(" ")
        if not content or content.startswith("#") or (bare == "---" and not found):
            continue
        entry = _Line(number, len(bare) - len(content), content)
        if "\t" in content or content.startswith(("---", "...")):
            entry.refuse("tabs and several documents are not read here", MoreYaml)
        found.append(entry)
    return found


def _block(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    first = lines[at]
    if _is_item(first.text):
        return _sequence(lines, at, indent)
    if _key(first.text):
        return _mapping(lines, at, indent)
    return _scalar(first, first.text), at + 1


def _key(text: str) -> re.Match[str] | None:
    if text[0] in "\"'":
        return _QUOTED_KEY.match(text)
    found = _PLAIN_KEY.match(text)
    return None if found and re.search(r"\s#", found[1]) else found


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _sequence(lines: list[_Line], at: int, indent: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at].text):
        line = lines[at]
        content = line.text[1:].lstrip(" ")
        if content and not content.startswith("#"):
            # What stands behind the dash is a block of its own, as deep as it begins.
            inner = indent + len(line.text) - len(content)
            lines[at] = _Line(line.number, inner, content)
            value, at = _block(lines, at, inner)
        else:
            value, at = _below(lines, at + 1, indent)
        items.append(value)
    return items, at


def _mapping(lines: list[_Line], at: int, indent: int) -> tuple[dict[str, Any], int]:
    entries: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at].text):
        line = lines[at]
        found = _key(line.text)
        if found is None:
            line.refuse("this is no `key: value`")
        key = _scalar(line, found[1])
        if not isinstance(key, str) or key in entries:
            line.refuse("a key that is there twice, or is no text")
        content = (found[2] or "").lstrip(" ")
        if content and not content.startswith("#"):
            entries[key], at = _scalar(line, content), at + 1
        elif at + 1 < len(lines) and lines[at + 1].indent == indent and _is_item(lines[at + 1].text):
            entries[key], at = _sequence(lines, at + 1, indent)
        else:
            entries[key], at = _below(lines, at + 1, indent)
    return entries, at


def _below(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """The block under a key or a dash; nothing is an empty text."""
    if at < len(lines) and lines[at].indent > indent:
        return _block(lines, at, lines[at].indent)
    return "", at


def _scalar(line: _Line, text: str) -> Any:
    if text.startswith("'"):
        single = _SINGLE.match(text)
        return single[1].replace("''", "'") if single else line.refuse("a quote is not closed on its line")
    if text.startswith('"'):
        return _double_quoted(line, text)
    plain = re.split(r"\s+#", text, maxsplit=1)[0].rstrip()
    if plain in ("{}", "[]"):
        return {} if plain == "{}" else []
    if plain[0] in _BEYOND or plain in "?-:" or _STRUCTURE.search(plain):
        line.refuse(
            "only plain block YAML is read here; install PyYAML (python3-yaml), or write the file as JSON", MoreYaml
        )
    return plain


def _double_quoted(line: _Line, text: str) -> str:
    quoted = _DOUBLE.match(text)
    try:
        value = json.loads(quoted[1]) if quoted else None
    except ValueError:
        value = None
    return value if isinstance(value, str) else line.refuse("a quoted text that JSON would not read either")
