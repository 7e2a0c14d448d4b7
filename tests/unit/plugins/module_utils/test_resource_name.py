# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Names of extended resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import pointer
from ansible_collections.colocation.kubernetes.plugins.module_utils._resource_name import is_extended, name_problem

PREFIX = "a" * 60 + "." + "b" * 60 + "." + "c" * 60 + "." + "d" * 61  # 244 characters


@pytest.mark.parametrize(
    "name",
    ["mock.com/gpu", "mock/gpu", "a/b", "1.2/3", "test.com/colocation-memory", f"{PREFIX}/{'x' * 63}", "a/B_.-c"],
)
def test_good_names(name: str) -> None:
    assert name_problem(name) == "" and is_extended(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cpu", "native"),
        ("ephemeral-storage", "native"),
        ("hugepages-1Gi", "native"),
        ("gpu", "no prefix"),
        ("attachable-volumes-csi-x", "no prefix"),
        ("kubernetes.io/gpu", "kubernetes.io"),
        ("batch.kubernetes.io/cpu", "kubernetes.io"),
        ("requests.a.com/b", "quotas"),
        (f"x{PREFIX}/y", "at most 244"),
        ("A.com/b", "prefix"),
        ("-a.com/b", "prefix"),
        ("a..com/b", "prefix"),
        ("a_b.com/c", "prefix"),
        ("/b", "prefix"),
        ("a.com/", "what follows"),
        ("a.com/-b", "what follows"),
        ("a.com/b/c", "what follows"),
        ("a.com/b\n", "what follows"),
        ("a.com\n/b", "prefix"),
        ("a.com/ü", "what follows"),
        (f"a.com/{'x' * 64}", "what follows"),
    ],
)
def test_bad_names_and_why(name: str, told: str) -> None:
    assert told in name_problem(name)


@given(st.text())
def test_any_text_is_judged(name: str) -> None:
    assert name_problem(name) or is_extended(name)


@given(st.lists(st.text(), min_size=1))
def test_a_pointer_can_be_taken_apart_again(names: list[str]) -> None:
    parts = pointer(*names).split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == names
