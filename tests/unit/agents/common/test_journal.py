# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The log's lines: one each, with a level for the journal, whatever is in them."""

from __future__ import annotations

import logging
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.journal import LineFormatter, field_value, goes_to_the_journal, syslog_level


def line(message: str, level: int = logging.INFO, prefix: bool = True, **fields: object) -> str:
    record = logging.LogRecord("agent", level, "file.py", 1, "%s", (message,), None)
    record.colocation_fields = fields
    return LineFormatter(prefix).format(record)


@pytest.mark.parametrize(
    ("level", "number"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2), (5, 7)],
)
def test_levels_are_syslogs(level: int, number: int) -> None:
    assert syslog_level(level) == number
    assert line("x", level).startswith(f"<{number}>")


def test_fields_follow_the_event() -> None:
    assert line("it began", resource="mock.com/gpu", why="no reason") == (
        '<6>agent: it began resource=mock.com/gpu why="no reason"'
    )
    assert line("it began", prefix=False) == "info agent: it began"


def failed() -> logging.LogRecord:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        return logging.LogRecord("agent", logging.ERROR, "file.py", 1, "failed", (), sys.exc_info())


def test_an_exception_is_one_line_with_its_place() -> None:
    said = LineFormatter(True).format(failed())
    assert said.startswith('<3>agent: failed error="ValueError: two\\\\nlines" trace="test_journal.py:')
    assert "\n" not in said


@given(st.text(), st.text())
def test_anything_is_one_printable_line(message: str, value: str) -> None:
    assert line(message, field=value).isprintable()


@given(st.text(min_size=1))
def test_a_value_in_quotes_can_be_told_from_what_follows(value: str) -> None:
    said = field_value(value)
    if said.startswith('"'):
        inner = said[1:-1].replace("\\\\", "").replace('\\"', "")
        assert '"' not in inner
    else:
        assert not set(said) & set(' "=')


def test_the_journal_is_known_by_its_device_and_inode() -> None:
    read, write = os.pipe()
    try:
        found = os.fstat(write)
        right = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert goes_to_the_journal(right, write)
        assert not goes_to_the_journal({"JOURNAL_STREAM": "1:1"}, write)
        assert not goes_to_the_journal({}, write)
    finally:
        os.close(read)
        os.close(write)
    assert not goes_to_the_journal(right, write)
