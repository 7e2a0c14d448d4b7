# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Configuration: good texts become values, bad ones say everything that is wrong and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.config import KEY, Between, ConfigError, load


@dataclass(frozen=True)
class Page:
    port: Annotated[int, Between(1, 65535)] = 80
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class Example:
    name: str
    seconds: float = 1.5
    mode: Literal["soft", "hard"] = "soft"
    quiet: bool = False
    limit: int | None = 3
    page: Page = field(default_factory=Page)
    words: tuple[str, ...] = ()
    counts: Mapping[str, Annotated[int, Between(0)]] = field(default_factory=dict)

    def complaints(self) -> Iterator[tuple[str, str]]:
        if self.quiet and self.words:
            yield "words", "can't be said quietly"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(Example, text, "a.yaml")
    return str(caught.value).splitlines()


def test_every_type_is_read() -> None:
    text = "name: x\nseconds: 2\nmode: hard\nlimit: null\npage: {port: 8080}\nwords: [a, b]\ncounts: {c: 1}\n"
    read = load(Example, text, "a.yaml")
    assert read == Example("x", 2.0, "hard", False, None, Page(8080), ("a", "b"), {"c": 1})
    assert isinstance(read.seconds, float)


def test_what_is_not_said_has_its_default() -> None:
    assert load(Example, "name: x", "a.yaml") == Example("x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nam: x", ['a.yaml:1: nam: unknown key; did you mean "name"?', "a.yaml:1: name: is missing"]),
        ("name: x\npage:\n  prot: 1", ['a.yaml:3: page.prot: unknown key; did you mean "port"?']),
        ("name: x\npage:\n  zzz: 1", ['a.yaml:3: page.zzz: unknown key; it may be "port", "address"']),
        ("name: x\npage: {port: 70000}", ["a.yaml:2: page.port: must be between 1 and 65535, not 70000"]),
        ("name: x\npage: 7", ['a.yaml:2: page: must be a mapping of "port", "address", not 7']),
        ("name: 1", ["a.yaml:1: name: must be a text, not 1; put it in quotes"]),
        ("name: no", ["a.yaml:1: name: must be a text, not false; put it in quotes"]),
        ("name: x\nlimit: true", ["a.yaml:2: limit: must be a whole number, not true"]),
        ("name: x\nseconds: .nan", ["a.yaml:2: seconds: must be a finite number, not nan"]),
        (f"name: x\nseconds: 1{'0' * 400}", ["a.yaml:2: seconds: must be a finite number, not inf"]),
        ("name: x\nseconds: true", ["a.yaml:2: seconds: must be a number, not true"]),
        ("name: x\nmode: hrad", ['a.yaml:2: mode: "hrad" is no choice here; did you mean "hard"?']),
        ("name: x\nmode: [hard]", ['a.yaml:2: mode: a list is no choice here; it may be "soft", "hard"']),
        ("name: x\nwords: a", ['a.yaml:2: words: must be a list, not "a"']),
        ("name: x\nwords: [a, 1]", ["a.yaml:2: words[1]: must be a text, not 1; put it in quotes"]),
        ("name: x\ncounts: {a.b/c: -1}", ['a.yaml:2: counts."a.b/c": must be at least 0, not -1']),
        ("name: x\nquiet: yes\nwords: [a]", ["a.yaml:3: words: can't be said quietly"]),
        ("name: x\nname: y", ['a.yaml:2: the key "name" stands here for the second time']),
        ("name: x\n1: y", ["a.yaml:2: a key must be a text; put it in quotes"]),
        ("name: &a x\nwords: [*a]", ["a.yaml:2: aliases (*name) are not read here"]),
        (
            "name: !!python/name:os.system x",
            ["a.yaml:1: the tag tag:yaml.org,2002:python/name:os.system is not read here"],
        ),
        (
            "- x",
            [
                'a.yaml:1: must be a mapping of "name", "seconds", "mode", "quiet", "limit", "page", "words", "counts",'
                " not a list"
            ],
        ),
        ("[" * 3000, ["a.yaml:1: is nested too deeply"]),
        ("", ["a.yaml:1: name: is missing"]),
    ],
)
def test_a_bad_text_says_where_and_what_to_do(text: str, said: list[str]) -> None:
    assert problems(text) == said


def test_broken_yaml_says_its_line() -> None:
    (said,) = problems("name: x\nwords: [a\n")
    assert said.startswith("a.yaml:3: is no YAML: while parsing a flow sequence")


def test_two_documents_are_refused() -> None:
    assert "document" in problems("name: x\n---\nname: y\n")[0]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        load(Example, text, "a.yaml")
    except ConfigError as refused:
        assert refused.problems


PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)


@given(
    st.builds(
        Example,
        PLAIN,
        st.floats(-1e9, 1e9),
        st.sampled_from(("soft", "hard")),
        st.just(False),
        st.none() | st.integers(),
        st.builds(Page, st.integers(1, 65535), PLAIN),
        st.lists(PLAIN, max_size=4).map(tuple),
        st.dictionaries(PLAIN, st.integers(0), max_size=4),
    )
)
def test_what_is_written_is_read_again(value: Example) -> None:
    written: dict[str, Any] = {
        "name": value.name,
        "seconds": value.seconds,
        "mode": value.mode,
        "quiet": value.quiet,
        "limit": value.limit,
        "page": {"port": value.page.port, "address": value.page.address},
        "words": list(value.words),
        "counts": dict(value.counts),
    }
    assert load(Example, yaml.safe_dump(written), "a.yaml") == value


@given(st.sampled_from(["name", "seconds", "page", "counts"]), st.integers(0, 6))
def test_a_key_with_two_letters_swapped_is_recognised(key: str, place: int) -> None:
    place = min(place, len(key) - 2)
    wrong = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
    if wrong != key:
        assert f'{wrong}: unknown key; did you mean "{key}"?' in problems(f"{wrong}: 1")[0]


@dataclass(frozen=True)
class Odd:
    """A key that is no name in Python, and a value that only a check judges."""

    pin_cpu: bool = field(default=True, metadata={KEY: "pin-cpu"})
    anything: Annotated[Any, lambda value: "is empty" if value in ({}, []) else None] = None


def test_a_key_may_be_no_name_in_python() -> None:
    assert load(Odd, "pin-cpu: false", "a.yaml") == Odd(pin_cpu=False)
    with pytest.raises(ConfigError, match='pin_cpu: unknown key; did you mean "pin-cpu"'):
        load(Odd, "pin_cpu: false", "a.yaml")


def test_a_value_may_be_anything_that_its_check_takes() -> None:
    assert load(Odd, "anything: {a: [1, {b: x}], c: null}", "a.yaml").anything == {"a": [1, {"b": "x"}], "c": None}
    with pytest.raises(ConfigError, match="anything: is empty"):
        load(Odd, "anything: []", "a.yaml")
