# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Pages made from specifications: their markup and their tables."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.run import reference

SPECS: dict[str, Any] = {
    "main": {
        "short_description": "Prepare a node",
        "options": {
            "prep_swap": {
                "type": "str",
                "default": "disable",
                "choices": ["disable", "keep"],
                "description": ["What to do.", "More."],
            },
            "prep_parts": {"type": "dict", "options": {"name": {"required": True, "description": "One | other."}}},
        },
    },
}
SPECS["uninstall"] = {"short_description": "Undo it", "options": SPECS["main"]["options"]}


@pytest.mark.parametrize(
    ("markup", "markdown"),
    [
        ("C(state), O(state=absent), V(a\\) b) and E(HOME).", "`state`, `state=absent`, `a) b` and `HOME`."),
        ("Uses M(colocation.kubernetes.node_labels).", "Uses [`node_labels`](../modules/node_labels.md)."),
        ("As M(ansible.builtin.copy), see U(https://example.org/).", "As ansible.builtin.copy, see https://example.org/."),
        ("L(here, https://example.org/)", "[here](https://example.org/)"),
        ("etcd(8), PSI(some)", "etcd(8), PSI(some)"),
    ],
)  # fmt: skip
def test_ansibles_markup_becomes_markdown(markup: str, markdown: str) -> None:
    assert reference.prose(markup) == markdown


def test_a_role_has_each_option_once_and_names_points_that_share_them() -> None:
    page = reference.role_page("prep", SPECS)
    assert "| `prep_swap` | str | `disable` | What to do.<br>More.<br>One of `disable`, `keep`. |" in page
    assert r"| `prep_parts.name` | str | **required** | One \| other. |" in page
    assert page.count("`prep_swap`") == 1
    assert "## `tasks_from: uninstall`\n\nUndo it\n\nIt takes the same variables." in page


def test_a_module_has_needed_options_first_and_what_it_returns() -> None:
    told = {
        "doc": {
            "short_description": "Do it",
            "description": ["It does."],
            "options": {"also": {"default": False, "type": "bool"}, "what": {"required": True}},
        },
        "examples": "\n- name: Do it\n",
        "return": {"done": {"returned": "always", "type": "list", "elements": "str", "sample": ["a"]}},
    }
    page = reference.module_page("do", told)
    assert page.index("| `what` | str | **required** |") < page.index("| `also` | bool | `false` |")
    assert "```yaml\n- name: Do it\n```" in page
    assert '| `done` | list of str | always | <br>For example `["a"]` |' in page
