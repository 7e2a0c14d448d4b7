# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Our reader of plain YAML against PyYAML: the same document or a refusal, never another document."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._plain_yaml import YamlProblem, load_plain

scalars = st.text(alphabet="abz09-_./:= #'\"\\{}[]|&*!%@`~?,\té", max_size=12)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3),
    max_leaves=12,
)


def expected(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader) or None


def read(text: str) -> Any:
    """Nothing and an empty text are the same to us."""
    return load_plain(text) or None


@pytest.mark.parametrize(
    "text",
    [
        "a: b",
        "---\na: b\n",
        "# note\na:\n- b\n- c: d\n  e: f\n-\n  g: h\n",
        "a:\n  - b\n  -   c: d\n      e: [ ]".replace("[ ]", "[]"),
        "a: 'it''s' # note\nb: \"x\\ny\"\n'c d': {}\n",
        "a:\nb: null\nc: ~\nd: true\n",
        "server: https://h:6443/x#y\nargs:\n- --a=b\n- -c\n- '- d'\n",
        "- a\n- b\n",
        "plain",
    ],
)
def test_what_kubernetes_writes(text: str) -> None:
    assert read(text) == expected(text)


@given(documents)
def test_what_yaml_libraries_write_is_read_or_refused(document: Any) -> None:
    text = yaml.safe_dump(document, width=1000, allow_unicode=True)
    try:
        found = read(text)
    except YamlProblem:
        return
    assert found == expected(text)


@given(st.text(alphabet="ab:- \n'\"#{}[]|>&*!\\\t", max_size=40))
def test_any_text_is_read_as_pyyaml_does_or_refused(text: str) -> None:
    try:
        found = read(text)
    except YamlProblem:
        return
    assert found == expected(text)


@pytest.mark.parametrize(
    "text",
    ["a: |\n  b\n", "a: &x b\n", "a: *x\n", "a: {b: c}\n", "a: [b]\n", "a: !!str b\n", "a: 'b\n", 'a: "\\x"\n',
     "a: b\n  c\n", "a: b\na: c\n", "a:\tb\n", "a: b\n---\nc: d\n", "a: b: c\n", " a: b\nc: d\n", "? a\n: b\n"],
)  # fmt: skip
def test_the_rest_is_refused_by_its_line(text: str) -> None:
    with pytest.raises(YamlProblem, match=r"^line \d+: "):
        load_plain(text)


def test_a_refusal_never_shows_the_content() -> None:
    with pytest.raises(YamlProblem) as refusal:
        load_plain("token: [secret-word]\n")
    assert "secret-word" not in str(refusal.value)
