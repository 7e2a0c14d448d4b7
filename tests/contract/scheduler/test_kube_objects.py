# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""kube_objects and kube_cluster_info against a real API server: what server-side apply makes of what others wrote."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import MERGE_PATCH, KubeClient
from ansible_collections.colocation.kubernetes.plugins.modules import kube_cluster_info, kube_objects
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

PLACE = "/api/v1/namespaces/default"
CONFIG = f"{PLACE}/configmaps/settings"


def config(**data: str) -> dict[str, Any]:
    metadata = {"name": "settings", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Deed:
    """The module with this server's administrator."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def __call__(self, *objects: dict[str, Any], check_mode: bool = False, **more: Any) -> dict[str, Any]:
        base = {"component": "test", "namespace": "default", "kubeconfig": self._server.kubeconfig()}
        return call(kube_objects.main, check_mode, **{**base, "objects": list(objects), **more})


@pytest.fixture
def deed(server: ApiServer) -> Deed:
    made = Deed(server)
    made(state="absent")
    return made


def test_check_mode_says_what_the_run_does(deed: Deed, api: KubeClient) -> None:
    for data in ({"a": "1"}, {"a": "2", "b": "3"}, {"b": "3"}):
        told = deed(config(**data), check_mode=True)
        done = deed(config(**data))
        assert (told["changed"], told["diff"]) == (done["changed"], done["diff"]) != (False, [])
        assert api.get(CONFIG)["data"] == data, "what was said before and is not any more goes"
        assert not deed(config(**data))["changed"]


def test_what_others_wrote(deed: Deed, api: KubeClient) -> None:
    deed(config(a="1"))
    api.patch(CONFIG, {"data": {"a": "theirs", "c": "theirs"}}, MERGE_PATCH, field_manager="kubectl-edit")
    assert deed(config(a="1"))["changed"]
    assert api.get(CONFIG)["data"] == {"a": "1", "c": "theirs"}
    assert not deed(config(a="1"))["changed"]


def test_what_is_not_ours(deed: Deed, api: KubeClient) -> None:
    api.post(f"{PLACE}/configmaps", config(a="theirs"))
    try:
        assert "is there already and not ours" in deed(config(a="1"))["msg"]
        assert api.get(CONFIG)["data"] == {"a": "theirs"}
        assert deed(config(a="1"), adopt=True)["changed"]
        assert not deed(config(a="1"))["changed"]
    finally:
        api.remove(CONFIG)


def test_secrets_stay_secret(deed: Deed, api: KubeClient) -> None:
    hidden = base64.b64encode(b"a very secret text").decode()
    metadata = {"name": "keys", "namespace": "default"}
    done = deed({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": hidden}})
    assert done["changed"]
    assert hidden not in str(done)
    assert api.get(f"{PLACE}/secrets/keys")["data"] == {"key": hidden}


def test_refusals_name_the_object_and_the_reason(deed: Deed) -> None:
    metadata = {"name": "Not A Name", "namespace": "default"}
    refused = deed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert "the API server refuses ConfigMap default/Not A Name:" in refused["msg"]
    unknown = deed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config()["metadata"], "dota": {}})
    assert "dota" in unknown["msg"]
    assert (
        "this cluster has no Wish of v1" in deed({"apiVersion": "v1", "kind": "Wish", "metadata": {"name": "x"}})["msg"]
    )


def test_a_namespace_that_comes_with_it(deed: Deed, api: KubeClient) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "comes"}}
    inside = {**config(a="1"), "metadata": {"name": "settings", "namespace": "comes"}}
    told = deed(namespace, inside, check_mode=True)
    assert told["changed_objects"] == ["Namespace comes", "ConfigMap comes/settings"]
    assert deed(namespace, inside)["changed_objects"] == told["changed_objects"]
    assert deed(namespace, inside)["changed"] is False
    assert deed(state="absent")["changed_objects"] == ["ConfigMap comes/settings", "Namespace comes"]


def test_a_namespace_of_others_is_used_and_left(deed: Deed, api: KubeClient) -> None:
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    before = api.get(PLACE)
    for state in ("present", "absent"):
        done = deed(theirs, config(a="1"), component="guest", state=state)
        assert done["changed_objects"] == ["ConfigMap default/settings"]
    assert api.get(PLACE) == before


def test_the_cluster_as_it_is(server: ApiServer) -> None:
    found = call(kube_cluster_info.main, kubeconfig=server.kubeconfig())
    assert found["version"].startswith(server.minor + ".")
    assert (found["minor"], found["image_repository"]) == (int(server.minor.split(".")[1]), "registry.k8s.io")
    assert found["service_address"] == "https://10.96.0.1:443"
    assert {"apps", "rbac.authorization.k8s.io"} <= set(found["api_groups"])
