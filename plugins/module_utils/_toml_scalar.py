# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""TOML's single values: text to value and back. Knows no tables, files or positions in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

MAX_LENGTH = 400  # Python refuses to convert much longer numbers

_INTEGER = re.compile(r"[+-]?(?:0|[1-9](?:_?[0-9])*)")
_BASED = re.compile(r"0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*")
_FLOAT = re.compile(
    r"[+-]?(?:inf|nan|(?:0|[1-9](?:_?[0-9])*)"
    r"(?:\.[0-9](?:_?[0-9])*(?:[eE][+-]?[0-9](?:_?[0-9])*)?|[eE][+-]?[0-9](?:_?[0-9])*))"
)
_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?"
_DATE_TIME = re.compile(rf"{_DATE}[Tt ]{_TIME}([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?", re.ASCII)
_LOCAL_DATE = re.compile(_DATE, re.ASCII)
_LOCAL_TIME = re.compile(_TIME, re.ASCII)

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[\s\S])")
_LINE_CONTINUATION = re.compile(r"\\[ \t]*\n[ \t\n]*")
_SIMPLE_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_MUST_ESCAPE = re.compile(r'[\x00-\x1f\x7f"\\]')
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class ScalarError(ValueError):
    """This text is no value: why, and how many characters in."""

    def __init__(self, message: str, offset: int = 0) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, a time or both. Nobody here reckons with them, so the text is the value."""

    text: str


def read_scalar(text: str) -> tuple[Any, int]:
    """The value that `text` starts with, and its length; `text` is a run of plain characters."""
    word = text.split(" ", 1)[0]
    if len(word) > MAX_LENGTH:
        raise ScalarError(f"a number of {len(word)} characters")
    for length, candidate in ((len(text), text), (len(word), word)):
        moment = _read_moment(candidate)
        if moment is not None:
            return moment, length
    if word in ("true", "false"):
        return word == "true", len(word)
    if _INTEGER.fullmatch(word):
        return int(word.replace("_", "")), len(word)
    if _BASED.fullmatch(word):
        return int(word.replace("_", ""), 0), len(word)
    if _FLOAT.fullmatch(word):
        return float(word.replace("_", "")), len(word)
    raise ScalarError("this is not a value (a text needs quotes)")  # it may be a secret, so it is not shown


def _read_moment(text: str) -> Moment | None:
    try:
        if match := _DATE_TIME.fullmatch(text):
            year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
            datetime(year, month, day, hour, minute, second)
        elif match := _LOCAL_DATE.fullmatch(text):
            year, month, day = (int(part) for part in match.groups())
            date(year, month, day)
        elif match := _LOCAL_TIME.fullmatch(text):
            hour, minute, second = (int(part) for part in match.groups()[:3])
            time(hour, minute, second)
        else:
            return None
    except ValueError as error:
        raise ScalarError(f"{text!r} is no date or time: {error}") from None
    return Moment(text)


def unescape(body: str, multi_line: bool) -> str:
    """The text that the inside of a basic string stands for."""
    if "\\" not in body:
        return body
    result: list[str] = []
    position = 0
    while (found := body.find("\\", position)) >= 0:
        result.append(body[position:found])
        if multi_line and (match := _LINE_CONTINUATION.match(body, found)):
            position = match.end()
            continue
        match = _ESCAPE.match(body, found)
        if not match:
            raise ScalarError("a backslash at the end of a string", found)
        result.append(_escaped(match.group(1), found))
        position = match.end()
    result.append(body[position:])
    return "".join(result)


def _escaped(code: str, offset: int) -> str:
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    if len(code) > 1:
        number = int(code[1:], 16)
        if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
            return chr(number)
    raise ScalarError(f"\\{code} is not an escape of TOML", offset)


def write_string(value: str, quote: str = '"') -> str:
    """`value` in quotes of the wished kind where it fits into them, else as a basic string."""
    if quote == "'" and "'" not in value and not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        return f"'{value}'"
    named = {escaped: code for code, escaped in _SIMPLE_ESCAPES.items()}

    def escape(match: re.Match[str]) -> str:
        mark = match.group()
        return f"\\{named[mark]}" if mark in named else f"\\u{ord(mark):04X}"

    return f'"{_MUST_ESCAPE.sub(escape, value)}"'


def write_key(name: str, quote: str = '"') -> str:
    return name if _BARE_KEY.fullmatch(name) else write_string(name, quote)


def write_value(value: bool | int | str | list[str], quote: str = '"') -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return write_string(value, quote)
    return "[" + ", ".join(write_string(item, quote) for item in value) + "]"
