# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import copy
import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_document import Array, Dialect, InlineTable
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import (
    EditError,
    append_item,
    find_assignment,
    remove_items,
    set_value,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_text
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.toml_documents import (
    NAMES,
    comparable,
    readable_texts,
)

tomllib = pytest.importorskip("tomllib")

VALUES = st.sampled_from([True, False, 7, "x", 'a "b"', "tab\there", "line\nbreak", ["one"], ["/a", "/b"]])


def put(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    tree = copy.deepcopy(tree)
    table = tree
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value
    return tree


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    difference = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return [line[2:] for line in difference if line[:2] == "- "], [line[2:] for line in difference if line[:2] == "+ "]


@given(readable_texts(), VALUES, st.data())
def test_replacing_a_value_changes_it_and_nothing_else(text: str, value: Any, data: st.DataObject) -> None:
    document = read_text(text)
    places = [
        assignment
        for assignment in document.assignments
        if find_assignment(document, assignment.path) is assignment and not isinstance(assignment.node, InlineTable)
    ]
    place = data.draw(st.sampled_from(places))
    result = set_value(document, place.path, value)
    assert comparable(tomllib.loads(result.text)) == comparable(put(tomllib.loads(text), place.path, value))
    if result is not document:
        written = len(result.text) - len(text) + place.node.end - place.node.start
        assert result.text[: place.node.start] == text[: place.node.start]
        assert result.text[place.node.start + written :] == text[place.node.end :]


@given(readable_texts(), VALUES, st.lists(st.sampled_from([*NAMES, "new", "new 2"]), min_size=1, max_size=4))
def test_a_new_key_is_added_and_every_old_line_stays(text: str, value: Any, names: list[str]) -> None:
    document = read_text(text)
    path = tuple(names)
    try:
        result = set_value(document, path, value)
    except EditError:
        theirs: Any = tomllib.loads(text)
        for name in path[:-1]:
            if not isinstance(theirs, dict) or name not in theirs:
                break
            theirs = theirs[name]
        else:
            assert not isinstance(theirs, dict) or isinstance(theirs.get(path[-1]), (dict, list))
            return
        assert not isinstance(theirs, dict)
        return
    assert comparable(tomllib.loads(result.text)) == comparable(put(tomllib.loads(text), path, value))
    assert set_value(result, path, value) is result
    if find_assignment(document, path) is None:
        gone, dummy = changed_lines(text, result.text)
        assert len(gone) <= 1
        without = iter(result.text)
        assert all(mark in without for mark in text if mark not in "{} ")


@given(readable_texts(), st.sampled_from(["one", "/etc/*.toml", "it's"]), st.data())
def test_an_item_comes_to_the_end_of_an_array_and_goes_again(text: str, item: str, data: st.DataObject) -> None:
    document = read_text(text)
    arrays = [
        a
        for a in document.assignments
        if isinstance(a.node, Array) and find_assignment(document, a.path) is a and item not in a.node.value
    ]
    if not arrays:
        return
    path = data.draw(st.sampled_from(arrays)).path
    longer = append_item(document, path, item)
    old = find_assignment(document, path)
    assert old is not None
    assert comparable(tomllib.loads(longer.text)) == comparable(put(tomllib.loads(text), path, [*old.node.value, item]))
    assert append_item(longer, path, item) is longer
    shorter = remove_items(longer, path, lambda value: value == item)
    assert comparable(shorter.tree) == comparable(document.tree)


@given(readable_texts(), st.data())
def test_removing_an_item_keeps_the_others_and_the_comments(text: str, data: st.DataObject) -> None:
    document = read_text(text)
    arrays = [
        a
        for a in document.assignments
        if isinstance(a.node, Array) and a.node.items and find_assignment(document, a.path) is a
    ]
    if not arrays:
        return
    place = data.draw(st.sampled_from(arrays))
    unwanted = data.draw(st.sampled_from(place.node.value))
    result = remove_items(document, place.path, lambda value: repr(value) == repr(unwanted))
    kept = [value for value in place.node.value if repr(value) != repr(unwanted)]
    found = find_assignment(result, place.path)
    assert found is not None
    assert comparable(found.node.value) == comparable(kept)
    removed = [item for item in place.node.items if repr(item.value) == repr(unwanted)]
    inside = sum(text[item.start : item.end].count("# a, ] b") for item in removed)
    assert result.text.count("# a, ] b") == text.count("# a, ] b") - inside


RUNC = ("plugins", "cri", "containerd", "runtimes", "runc", "options", "SystemdCgroup")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "[plugins.cri.containerd.runtimes.runc.options]\n  SystemdCgroup = false # no\n",
            "[plugins.cri.containerd.runtimes.runc.options]\n  SystemdCgroup = true # no\n",
            id="a line",
        ),
        pytest.param(
            "[plugins.cri.containerd.runtimes.runc]\noptions = {SystemdCgroup = false}\n",
            "[plugins.cri.containerd.runtimes.runc]\noptions = {SystemdCgroup = true}\n",
            id="an inline table",
        ),
        pytest.param(
            "[plugins.cri.containerd.runtimes]\nrunc = { runtime_type = 'x' }\n",
            "[plugins.cri.containerd.runtimes]\nrunc = { runtime_type = 'x', options = { SystemdCgroup = true } }\n",
            id="a new table in an inline table",
        ),
        pytest.param(
            "[plugins.cri.containerd.runtimes.runc]\noptions = {}\n",
            "[plugins.cri.containerd.runtimes.runc]\noptions = { SystemdCgroup = true }\n",
            id="an empty inline table",
        ),
        pytest.param(
            "[plugins.cri.containerd.runtimes.runc]\n  options.BinaryName = ''\nx = 1\n",
            "[plugins.cri.containerd.runtimes.runc]\n  options.BinaryName = ''\n"
            "  options.SystemdCgroup = true\nx = 1\n",
            id="a dotted neighbour",
        ),
        pytest.param(
            "plugins.cri.containerd.snapshotter = 'overlayfs'\n",
            "plugins.cri.containerd.snapshotter = 'overlayfs'\n"
            "plugins.cri.containerd.runtimes.runc.options.SystemdCgroup = true\n",
            id="dotted from the root",
        ),
        pytest.param(
            "version = 1\n",
            "version = 1\n\n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
            id="a new table",
        ),
        pytest.param("", "[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n", id="an empty file"),
        pytest.param(
            "# mine\n[plugins.cri.containerd.runtimes.runc.options]",
            "# mine\n[plugins.cri.containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
            id="no line break at the end",
        ),
        pytest.param(
            '[plugins]\n  [plugins."cri"]\n    x = 1\n    # [other] stays here\n\n  # about b\n  [plugins.b]\n',
            '[plugins]\n  [plugins."cri"]\n    x = 1\n    # [other] stays here\n\n'
            '          [plugins."cri".containerd.runtimes.runc.options]\n            SystemdCgroup = true\n\n'
            "  # about b\n  [plugins.b]\n",
            id="indented as the others, comments where they were",
        ),
        pytest.param(
            "[plugins.cri.containerd.runtimes.runc.options]\r\nRoot = ''\r\n",
            "[plugins.cri.containerd.runtimes.runc.options]\r\nRoot = ''\r\nSystemdCgroup = true\r\n",
            id="CRLF",
        ),
    ],
)
def test_where_a_setting_goes(before: str, after: str) -> None:
    assert set_value(read_text(before), RUNC, True).text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version = 2\n[a]\n", 'version = 2\nimports = ["x"]\n[a]\n'),
        ("# licence\n\n[a]\n", '# licence\nimports = ["x"]\n\n[a]\n'),
        ("# about a\n[a]\n", 'imports = ["x"]\n\n# about a\n[a]\n'),
        ("# only\n# comments", '# only\n# comments\nimports = ["x"]\n'),
    ],
)
def test_where_a_first_key_goes(before: str, after: str) -> None:
    assert set_value(read_text(before), ("imports",), ["x"]).text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i = []", 'i = ["n"]'),
        ("i = ['a']", "i = ['a', 'n']"),
        ("i = ['a', ]", "i = ['a', 'n', ]"),
        ("i = [\n  'a', # x\n  'b' # y\n]", "i = [\n  'a', # x\n  'b', # y\n  'n'\n]"),
        ("i = [\n  'a',\n]", "i = [\n  'a',\n  'n',\n]"),
        ("i = [\n  'a']", "i = [\n  'a', 'n']"),
    ],
)
def test_appending(before: str, after: str) -> None:
    assert append_item(read_text(before), ("i",), "n").text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('d = ["cri"]', "d = []"),
        ('d = [ "cri" ] # keep', "d = [] # keep"),
        ('d = ["cri", "b"]', 'd = ["b"]'),
        ('d = ["a", "cri"]', 'd = ["a"]'),
        ('d = ["a", "cri", "b",]', 'd = ["a", "b",]'),
        ('d = [\n  "cri", # off\n  "b",\n]', 'd = [\n  # off\n  "b",\n]'),
        ('d = [\n  "cri",\n  "b",\n]', 'd = [\n  "b",\n]'),
        ('d = [\n  "a",\n  "cri"\n]', 'd = [\n  "a"\n]'),
    ],
)
def test_removing(before: str, after: str) -> None:
    result = remove_items(read_text(before), ("d",), lambda item: item == "cri")
    assert result.text == after


def test_nothing_to_remove_is_the_same_document() -> None:
    document = read_text("d = ['a']\n")
    assert remove_items(document, ("d",), lambda item: item == "cri") is document
    assert remove_items(document, ("e",), lambda item: True) is document


@pytest.mark.parametrize("text", ["plugins = 1\n", "[plugins.cri.containerd]\nruntimes = []\n", "[[plugins]]\n"])
def test_what_cannot_hold_the_key_is_refused(text: str) -> None:
    with pytest.raises(EditError):
        set_value(read_text(text), RUNC, True)


def test_bytes_that_are_not_utf8_survive_an_edit() -> None:
    document = read_text("# \udcfc\nx = 1\n", dialect=Dialect.LENIENT)
    assert set_value(document, ("x",), 2).encode() == b"# \xfc\nx = 2\n"
