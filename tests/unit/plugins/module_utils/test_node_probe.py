# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_probe import (
    Python,
    choose_python,
    parse_probe,
)


def answer(*lines: str) -> dict[str, Any]:
    return {"stdout": "\n".join(f"preflight:{line}" for line in lines)}


def test_a_whole_answer_between_banners_with_terminal_line_ends() -> None:
    stdout = "Welcome!\r\npreflight:uid 0\r\nnoise\r\npreflight:python /usr/bin/python3 3.13.5\r\npreflight:end\r\nbye"
    probe = parse_probe({"stdout": stdout})
    assert (probe.trouble, probe.uid) == ("", 0)
    assert probe.pythons == (Python("/usr/bin/python3", (3, 13, 5)),)


def test_a_cut_answer_is_not_taken_for_a_whole_one() -> None:
    assert parse_probe(answer("uid 0", "python /usr/bin/python3 3.13.5")).trouble == "no-root"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"msg": "non-zero return code", "stderr": "sudo:  a password\nis required"}, "sudo: a password is required"),
        (
            {"msg": "Task failed: Premature end of stream waiting for become success.\n>>> Standard Error\nsudo: no"},
            "sudo: no",
        ),
        ({}, "no words were given"),
    ],
)
def test_the_hosts_words_are_kept(result: dict[str, Any], words: str) -> None:
    probe = parse_probe(result)
    assert (probe.trouble, probe.words) == ("no-root", words)


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [
        (["python /a 3.9.18", "python /b 3.11.2", "python /c 3.10.0"], "/b"),
        (["python /a 3.9.18"], None),
        (["python /usr/bin/python 2.7.18"], None),
        (["named /c", "python /b 3.11.2", "python /c 3.10.0"], "/c"),
        (["named /c", "python /b 3.11.2", "python /c 3.9.0"], None),
        (["named /gone", "python /b 3.11.2"], None),
        (
            ["named python3.10", "python /usr/bin/python3.10 3.10.0", "python /usr/bin/python3.11 3.11.0"],
            "/usr/bin/python3.10",
        ),
        (["named /usr/bin/env python3", "python /usr/bin/python3 3.12.1"], "/usr/bin/python3"),
        (["named auto_silent", "python /b 3.11.2"], "/b"),
        (["named", "python /b 3.11.2"], "/b"),
        (["python /b nonsense", "python /c"], None),
    ],
)
def test_the_named_python_or_the_newest(lines: list[str], chosen: str | None) -> None:
    python = choose_python(parse_probe(answer("uid 0", *lines, "end")))
    assert (python.path if python else None) == chosen


@given(st.text(), st.text())
def test_any_answer_is_read(stdout: str, message: str) -> None:
    probe = parse_probe({"stdout": stdout, "msg": message})
    assert probe.trouble in ("", "hangs", "no-root")


@given(st.lists(st.tuples(st.integers(2, 4), st.integers(0, 20))))
def test_what_is_chosen_is_new_enough_and_none_is_newer(versions: list[tuple[int, int]]) -> None:
    lines = [f"python /p{n} {major}.{minor}.0" for n, (major, minor) in enumerate(versions)]
    python = choose_python(parse_probe(answer("uid 0", *lines, "end")))
    usable = [version for version in versions if version >= (3, 10)]
    assert (python.version[:2] if python else None) == max(usable, default=None)
