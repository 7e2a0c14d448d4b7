# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Making and removing a node's account, on a double that keeps objects by their paths.

What a real API server says to the same is in tests/contract/credentials.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_account import (
    Account,
    AccountError,
    drop,
    make,
    mint,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient

ACCOUNT = Account("w1", "kube-system")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = f"{RBAC}/clusterroles/colocation-agent-w1"
BINDING = f"{RBAC}/clusterrolebindings/colocation-agent-w1"
TOKEN = "/api/v1/namespaces/kube-system/serviceaccounts/colocation-agent-w1"


class ApiDouble(KubeClient):
    """Objects by path; every write on record."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/api/v1/nodes/w1": {"metadata": {"name": "w1", "uid": "one"}}}
        self.written: list[str] = []
        self.answer: dict[str, Any] = {}

    def get(self, path: str, _query: Any = None) -> Any:
        if path not in self.objects:
            raise ApiError(f"GET {path}: 404", 404)
        return copy.deepcopy(self.objects[path])

    def post(self, path: str, body: Any, _query: Any = None) -> Any:
        self.written.append(f"POST {path}")
        if path.endswith("/token"):
            return self.answer
        self.objects[f"{path}/{body['metadata']['name']}"] = copy.deepcopy(body)
        return body

    def patch(self, path: str, body: Any, _kind: str = "", **_options: Any) -> Any:
        self.written.append(f"PATCH {path}")
        self.objects[path] = {**self.objects[path], **copy.deepcopy(body)}
        return body

    def delete(self, path: str, _body: Any = None, **_options: Any) -> Any:
        self.written.append(f"DELETE {path}")
        del self.objects[path]


@pytest.fixture
def api() -> Any:
    return ApiDouble()


def test_it_is_made_once(api: Any) -> None:
    told = make(api, ACCOUNT, check_mode=True)
    assert api.written == []
    assert make(api, ACCOUNT, check_mode=False) == told
    assert [line.split()[0] for line in api.written] == ["POST"] * 3
    assert list(told.after) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    assert make(api, ACCOUNT, check_mode=False).after == {}
    assert len(api.written) == 3


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        (ROLE, {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        (BINDING, {"subjects": [{"kind": "User", "name": "thief"}]}),
        (TOKEN, {"automountServiceAccountToken": True}),
    ],
)
def test_what_somebody_changed_goes_back(api: Any, path: str, changed: dict[str, Any]) -> None:
    make(api, ACCOUNT, check_mode=False)
    api.objects[path].update(changed)
    assert len(make(api, ACCOUNT, check_mode=False).after) == 1
    assert api.written[3:] == [f"PATCH {path}"]
    assert make(api, ACCOUNT, check_mode=False).after == {}


def test_a_node_that_came_again_has_the_account_follow_it(api: Any) -> None:
    make(api, ACCOUNT, check_mode=False)
    api.objects["/api/v1/nodes/w1"]["metadata"]["uid"] = "two"
    make(api, ACCOUNT, check_mode=False)
    assert api.objects[ROLE]["metadata"]["ownerReferences"][0]["uid"] == "two"


def test_what_the_api_adds_is_no_difference(api: Any) -> None:
    make(api, ACCOUNT, check_mode=False)
    api.objects[ROLE]["metadata"].update(uid="x", resourceVersion="7")
    api.objects[ROLE]["rules"][0]["verbs"].reverse()
    assert make(api, ACCOUNT, check_mode=False).after == {}


def test_a_binding_to_another_role_is_not_followed(api: Any) -> None:
    make(api, ACCOUNT, check_mode=False)
    api.objects[BINDING]["roleRef"] = {"kind": "ClusterRole", "name": "cluster-admin"}
    with pytest.raises(AccountError, match="gives another role; delete it"):
        make(api, ACCOUNT, check_mode=False)


def test_removing_begins_with_what_gives_rights(api: Any) -> None:
    make(api, ACCOUNT, check_mode=False)
    del api.objects[ROLE]  # a run before this one was killed
    api.written.clear()
    told = drop(api, ACCOUNT, check_mode=True)
    assert api.written == []
    assert drop(api, ACCOUNT, check_mode=False) == told
    assert api.written == [f"DELETE {BINDING}", f"DELETE {TOKEN}"]
    assert drop(api, ACCOUNT, check_mode=False).after == {}


@pytest.mark.parametrize("deed", [make, drop])
def test_what_is_not_ours_is_left(api: Any, deed: Any) -> None:
    api.objects[TOKEN] = {"metadata": {"name": "colocation-agent-w1", "labels": None}}
    with pytest.raises(AccountError, match="is there already and not ours"):
        deed(api, ACCOUNT, False)
    assert api.objects[TOKEN]["metadata"]["labels"] is None


def test_no_node_no_account(api: Any) -> None:
    with pytest.raises(AccountError, match="knows no Node 'w2'; credentials_node_name"):
        make(api, Account("w2", "kube-system"), check_mode=False)


def test_a_token(api: Any) -> None:
    api.answer = {"status": {"token": "t", "expirationTimestamp": "2027-01-01T00:00:00Z"}}
    assert mint(api, ACCOUNT, 90) == ("t", "2027-01-01T00:00:00Z")
    assert api.written == [f"POST {TOKEN}/token"]
    api.answer = {}
    with pytest.raises(AccountError, match="gave no token"):
        mint(api, ACCOUNT, 90)


def test_other_refusals_are_told(api: Any) -> None:
    def refuse(path: str) -> Any:
        raise ApiError(f"GET {path}: 403 forbidden", 403)

    api.get = refuse
    with pytest.raises(ApiError, match="403 forbidden"):
        drop(api, ACCOUNT, check_mode=False)
