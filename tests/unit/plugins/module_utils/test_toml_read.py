# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Dialect, TomlError
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_text, read_toml
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.toml_documents import comparable, texts

tomllib = pytest.importorskip("tomllib")


def both(text: str) -> tuple[Any, Any]:
    try:
        theirs: Any = comparable(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        theirs = "refused"
    try:
        ours: Any = comparable(read_text(text).tree)
    except TomlError:
        ours = "refused"
    return ours, theirs


@given(texts())
def test_reads_the_same_as_tomllib(text: str) -> None:
    ours, theirs = both(text)
    assert ours == theirs


@given(texts(), st.data())
def test_agrees_with_tomllib_about_damaged_texts(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.sampled_from([*"[]{}\"'=.,\n#\\\x00\r", "", " 1"]))
    cut = data.draw(st.integers(0, 3))
    ours, theirs = both(text[:at] + damage + text[at + cut :])
    assert ours == theirs


@given(texts())
def test_every_position_points_at_what_it_says(text: str) -> None:
    try:
        document = read_text(text)
    except TomlError:
        return
    for assignment in document.assignments:
        written = text[assignment.node.start : assignment.node.end]
        if "\n" not in written or written[0] not in "{":
            assert comparable(tomllib.loads(f"x = {written}")["x"]) == comparable(assignment.node.value)
        for part in assignment.key:
            assert list(tomllib.loads(f"{text[part.start : part.end]} = 1")) == [part.name]
    assert document.encode() == text.encode()


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a = 1\n[b\nc = 2\n", 2, 3, "expected ']'"),
        ("a = 1\nb = [1,\n 2\n", 2, 5, "does not end"),
        ("a = ture\n", 1, 5, "this is not a value"),
        ("a = 1\n\n  a = 2\n", 3, 3, "already defined"),
        ("[a]\n[b]\n[a]\n", 3, 1, "already defined"),
        ('a = "x\n', 1, 5, "does not end on its line"),
        ("a = { b = 1 }\n[a.c]\n", 2, 1, "not a table to add to"),
        ("a = 1 b = 2\n", 1, 7, "the line should end here"),
        ("a = \n", 1, 5, "a value should stand here"),
        ("= 1\n", 1, 1, "a key should stand here"),
        ('a = "\\q"\n', 1, 6, "not an escape"),
        ("a = 2021-02-30\n", 1, 5, "no date"),
        ("é = 1\n", 1, 1, "a key should stand here"),
        ('x = "ok"\ny = "a\\', 2, 5, "does not end"),
        ("version = 2\r[grpc]\r", 1, 12, "the line should end here"),
        ("a = " + "[" * 100, 1, 70, "nested more than"),
    ],
)
def test_an_error_says_where(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(TomlError) as caught:
        read_text(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert says in caught.value.message


def test_a_byte_order_mark_is_kept_and_not_read() -> None:
    data = b"\xef\xbb\xbfversion = 2\r\n"
    document = read_toml(data)
    assert document.tree == {"version": 2}
    assert document.newline == "\r\n"
    assert document.encode() == data


def test_bytes_that_are_not_utf8_are_refused_or_kept() -> None:
    data = b"a = 1 # Gr\xfc\xdfe\nb = '\xff'\n"
    with pytest.raises(TomlError, match="line 1, column 11: this byte is not UTF-8"):
        read_toml(data)
    assert read_toml(data, Dialect.LENIENT).encode() == data


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = { b = 1,\n c = 2 }\n", {"a": {"b": 1, "c": 2}}),
        ("a = 1 # \x01\n", {"a": 1}),
        ("a.b.c = 1\n[a.b]\nd = 2\n", {"a": {"b": {"c": 1, "d": 2}}}),
    ],
)
def test_what_containerd_1_takes_beyond_toml(text: str, tree: dict[str, Any]) -> None:
    with pytest.raises(TomlError):
        read_text(text)
    assert read_text(text, dialect=Dialect.LENIENT).tree == tree


@given(texts())
def test_the_lenient_dialect_reads_strict_texts_the_same(text: str) -> None:
    try:
        strict = read_text(text)
    except TomlError:
        return
    assert comparable(read_text(text, dialect=Dialect.LENIENT).tree) == comparable(strict.tree)


def test_a_huge_file_is_read_in_linear_time() -> None:
    def seconds(count: int) -> float:
        text = "".join(f"[t.x{i}]\na = 'v'\nb = [1, 2, 3]\n" for i in range(count))
        start = time.process_time()
        read_text(text)
        return time.process_time() - start

    small = min(seconds(1000) for dummy in range(3))
    assert min(seconds(8000) for dummy in range(2)) < 40 * small  # 8 if linear, 64 if quadratic
