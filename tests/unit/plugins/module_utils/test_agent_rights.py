# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The one list of rights, as a role and as questions."""

from __future__ import annotations

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_rights import RIGHTS, questions, rules


def test_a_role_holds_what_it_can_to_the_own_node() -> None:
    made = {rule["resources"][0]: rule for rule in rules("w1")}
    assert made["nodes/status"] == {
        "apiGroups": [""],
        "resources": ["nodes/status"],
        "verbs": ["patch"],
        "resourceNames": ["w1"],
    }
    assert "resourceNames" not in made["pods"]


def test_nothing_wide_is_in_it() -> None:
    """What turns a stolen token into a stolen cluster must never slip in."""
    assert not any("*" in right.resource or "*" in right.verbs for right in RIGHTS)
    names = {right.resource for right in RIGHTS}
    assert not names & {"secrets", "pods/exec", "nodes/proxy", "serviceaccounts/token", "pods/ephemeralcontainers"}
    assert not any({"delete", "deletecollection", "bind", "escalate", "impersonate"} & set(r.verbs) for r in RIGHTS)


def test_every_right_is_asked_for() -> None:
    asked = {words: body["spec"]["resourceAttributes"] for words, body in questions("w1").items()}
    assert len(asked) == len(RIGHTS)
    assert asked["patch nodes/status (to put what it offers on its Node's status)"] == {
        "resource": "nodes",
        "subresource": "status",
        "verb": "patch",
        "name": "w1",
    }
    pods = next(attributes for words, attributes in asked.items() if words.startswith("list pods "))
    assert pods["fieldSelector"]["requirements"] == [{"key": "spec.nodeName", "operator": "In", "values": ["w1"]}]
