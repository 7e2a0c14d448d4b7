# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_repair import (
    candidates,
    position_in,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_toml
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.toml_documents import texts

CRI = 'plugins."io.containerd.grpc.v1.cri"'


def first(text: str) -> tuple[str, list[str]]:
    salvage = next(candidates(text.encode("utf-8", "surrogateescape"), 2))
    return salvage.data.decode(), [str(dropped) for dropped in salvage.dropped]


@pytest.mark.parametrize(
    ("message", "position"),
    [
        ("failed to unmarshal TOML at row 2 column 37: toml: expected character ]", (2, 37)),
        ("failed to load TOML: /etc/containerd/config.toml: (4, 2): duplicated tables", (4, 2)),
        ("unsupported config version `9`", None),
    ],
)
def test_where_containerd_says_it_is(message: str, position: tuple[int, int] | None) -> None:
    assert position_in(message) == position


@pytest.mark.parametrize(
    ("text", "saved", "dropped"),
    [
        pytest.param(
            "version = 2\n[a]\nx = tru\ny = 1 # kept\n",
            "version = 2\n[a]\ny = 1 # kept\n",
            ["line 3: x = … (this is not a value (a text needs quotes))"],
            id="a line",
        ),
        pytest.param(
            "version = 2\n[a\nx = 1\ny = 2\n[b]\nz = 3\n",
            "version = 2\n[b]\nz = 3\n",
            ["lines 2-4: [a (expected ']' at the end of the table's header, found '\\n')"],
            id="keys under a header that can't be trusted go with it",
        ),
        pytest.param(
            "version = 2\n[a]\nx = 1\n[b]\n[a]\ny = 2\n",
            "version = 2\n[a]\nx = 1\n[b]\n",
            ["lines 5-7: [a] (a is already defined)"],
            id="the second of two tables",
        ),
        pytest.param(
            f"version = \n[{CRI}]\nx = 1\n",
            f"version = 2\n[{CRI}]\nx = 1\n",
            ["line 1: version = … (a value should stand here; written anew as version = 2, which the tables tell)"],
            id="the version is told by the tables",
        ),
        pytest.param(
            "version = 2\n# Gr\udcfc\udcdfe\nx = 1\n",
            "version = 2\nx = 1\n",
            ["line 2: a comment (a byte that is not UTF-8, or a control character)"],
            id="bytes that are not UTF-8",
        ),
        pytest.param(
            "version = 2\r\nx = tru\r\ny = 1\r\n",
            "version = 2\r\ny = 1\r\n",
            ["line 2: x = … (this is not a value (a text needs quotes))"],
            id="CRLF",
        ),
        pytest.param(
            'version = 2\n[a]\nx = """\n[not.a.header]\ny = 1\n',
            "version = 2\n",
            ["lines 2-6: [a] (this multi-line string does not end)"],
            id="what an open text may have swallowed",
        ),
        pytest.param(
            "version = 2\npassword = hunter2\n",
            "version = 2\n",
            ["line 2: password = … (this is not a value (a text needs quotes))"],
            id="a value",
        ),
    ],
)
def test_what_is_saved_and_what_is_dropped(text: str, saved: str, dropped: list[str]) -> None:
    assert first(text) == (saved, dropped)


def test_a_byte_order_mark_goes_and_is_told() -> None:
    saved, dropped = first("\ufeffversion = 2\n")
    assert saved == "version = 2\n"
    assert "byte order mark" in dropped[0]


def test_every_single_loss_is_tried_before_all_is_given_up() -> None:
    text = "version = 2\nroot = 5\n[a]\nx = 1\n[b]\ny = 2\n"
    made = [salvage.data.decode() for salvage in candidates(text.encode(), 4, "(4, 1): Can't convert")]
    assert made[0] == text
    assert made[1] == text.replace("x = 1\n", "")  # what containerd complains about comes first
    assert text.replace("root = 5\n", "") in made
    assert text.replace("[b]\ny = 2\n", "") in made
    assert all("version" in candidate for candidate in made)
    assert made[-1] == "version = 4\n"


@given(texts(), st.data())
def test_every_candidate_is_toml_and_made_of_the_broken_lines(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damage = data.draw(st.sampled_from(["[", "]", '"', "'''", "=", "\n", "\x00", "\udcff", ""]))
    cut = data.draw(st.integers(0, 4))
    broken = (text[:at] + damage + text[at + cut :]).encode("utf-8", "surrogateescape")
    made = list(candidates(broken, 3))
    lines = set(broken.split(b"\n"))
    for salvage in made:
        read_toml(salvage.data)
        for line in salvage.data.split(b"\n"):
            assert line in lines or line.startswith(b"version = ") or line + b"\r" in lines or not line
    assert made[-1].data == b"version = 3\n"


@given(texts())
def test_a_readable_text_is_its_own_first_candidate(text: str) -> None:
    data = text.encode()
    try:
        read_toml(data)
    except ValueError:
        return
    salvage = next(candidates(data, 3))
    assert salvage.data.rstrip(b"\n") == data.rstrip(b"\n")
    assert salvage.dropped == ()
