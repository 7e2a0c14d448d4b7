# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""kube-scheduler's questions, and questions that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.scheduler.wire import MOST_NAMES, MOST_TEXT, WireError, filter_result, no_opinion, read_question


def test_a_question_as_go_writes_it() -> None:
    pod = {"metadata": {"uid": "u", "name": "p", "namespace": "d"}, "spec": {"schedulerName": "s"}}
    question = read_question(json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]}).encode(), {})
    assert (question.pod.uid, question.pod.scheduler, question.names) == ("u", "s", ["a", "b"])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"Pod": ' + b"9" * 10_000 + b"}", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no JSON object"),
        (b'{"NodeNames": []}', "Pod is missing"),
        (b'{"Pod": 1}', "Pod is missing"),
        (b'{"Pod": {}, "NodeNames": "a"}', "NodeNames is no list"),
        (b'{"Pod": {}, "NodeNames": ["a", 1]}', "NodeNames is no list"),
        (b'{"Pod": {}, "NodeNames": [["a"]]}', "NodeNames is no list"),
        (b'{"Pod": {}, "Nodes": {"items": []}}', "nodeCacheCapable: true"),
    ],
)
def test_what_is_no_question_is_refused_with_a_reason(body: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read_question(body, {})


@pytest.mark.parametrize(
    "question",
    [
        {"Pod": {}, "NodeNames": ["a"] * (MOST_NAMES + 1)},
        {"Pod": {"metadata": {"uid": "u" * (MOST_TEXT + 1)}}, "NodeNames": ["a"]},
        {"Pod": {"metadata": {"name": "n" * MOST_TEXT}}, "NodeNames": ["a"]},
    ],
)
def test_what_is_too_large_is_refused_as_that(question: dict[str, object]) -> None:
    with pytest.raises(WireError) as refused:
        read_question(json.dumps(question).encode(), {})
    assert refused.value.status == 413


def test_as_many_names_as_there_may_be_are_taken() -> None:
    assert len(read_question(json.dumps({"Pod": {}, "NodeNames": ["a"] * MOST_NAMES}).encode(), {}).names) == MOST_NAMES


def test_answers() -> None:
    assert json.loads(filter_result(["a", "b"], {"b": "full"})) == {
        "NodeNames": ["a"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "full"},
        "Error": "",
    }
    assert json.loads(no_opinion(["a"])) == [{"Host": "a", "Score": 0}]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_question_or_refused(body: bytes) -> None:
    try:
        read_question(body, {})
    except WireError:
        pass
