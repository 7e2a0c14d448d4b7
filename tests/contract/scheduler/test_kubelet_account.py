# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Whose token a kubelet is shown with the role's rights, and what it could do with that: a real API server says."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.extender_process import rendered
from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Authority
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.test_kubelets import FakeKubelet, nodes
from colocation.common.config import load
from colocation.common.events import About, Reporter, Source
from colocation.common.kube_api import KubeApi, kubeconfig
from colocation.scheduler.config import Config
from colocation.scheduler.engine import access_of, make_source
from colocation.scheduler.kubelet_token import AccountToken
from colocation.scheduler.sources import SourceError

NAME = "schedulingplugin-mem-usage"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    made = FakeKubelet(Authority(tmp_path, "kubelet").issue("n1"))
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def config(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The role's, with its accounts and rights in the API, for an extender with a token of its own account."""
    return installed(server, tmp_path_factory.mktemp("extender"))


def installed(server: ApiServer, place: Path, **said: Any) -> Config:
    code = {"content": "", "sha256": "0123456789abcdef"}
    role = rendered(server, __scheduler_zipapp=code, scheduler_api_server=server.server, **said)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    wanted = [one for one in role["__scheduler_objects"] if one["kind"] in kinds]
    server.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted}))
    file = place / "kubeconfig"
    token = server.kubectl("create", "token", "--namespace=kube-system", role["scheduler_name"]).strip()
    file.write_text(json.dumps(server.kubeconfig_with_token(token)))
    return load(Config, json.dumps(role["__scheduler_extender_settings"] | {"kubeconfig": str(file)}), "extender.yaml")


def may(server: ApiServer, token: str, verb: str, resource: str, **more: str) -> bool:
    with KubeClient(find_access({"kubeconfig": server.kubeconfig_with_token(token)})) as asking:
        wanted: dict[str, Any] = {"verb": verb, "resource": resource, **more}
        answer = asking.post(REVIEW, {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": wanted}})
    return bool(answer["status"]["allowed"])


def test_a_kubelet_gets_a_token_that_reads_metrics_and_nothing_else(
    server: ApiServer, config: Config, kubelet: FakeKubelet
) -> None:
    access = access_of(config)
    source = make_source(config, access, KubeApi(access))
    assert set(source.sample(nodes(kubelet)).nodes) == {"n1"}
    (shown,) = kubelet.tokens
    token = shown.removeprefix("Bearer ")
    with KubeClient(find_access({"kubeconfig": server.kubeconfig_with_token(token)})) as asking:
        told = asking.post(WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    assert told["status"]["userInfo"]["username"] == f"system:serviceaccount:kube-system:{NAME}-kubelets"
    assert may(server, token, "get", "nodes", subresource="metrics")
    for verb, resource, sub in (
        ("create", "pods", "binding"), ("delete", "pods", ""), ("list", "pods", ""), ("list", "nodes", ""),
        ("get", "nodes", "proxy"), ("get", "secrets", ""), ("create", "serviceaccounts", "token"),
    ):  # fmt: skip
        assert not may(server, token, verb, resource, subresource=sub, namespace="kube-system"), (verb, resource, sub)


def test_the_extender_itself_has_no_metrics_and_no_other_accounts(server: ApiServer, config: Config) -> None:
    assert not may(server, access_of(config)().token.content, "get", "nodes", subresource="metrics")
    with pytest.raises(SourceError, match="cannot create resource"):
        AccountToken(KubeApi(kubeconfig(config.kubeconfig)), "kube-system/default").get()


def test_an_extender_that_is_no_scheduler_to_the_api_writes_events_in_its_namespace(
    server: ApiServer, tmp_path: Path
) -> None:
    names = {"scheduler_name": "another", "scheduler_cluster_role": "another"}
    access = access_of(installed(server, tmp_path, scheduler_mode="hostpath", **names))
    reporter = Reporter(KubeApi(access), Source("test"))
    now = datetime.datetime.now(datetime.timezone.utc)
    for _time in ("written", "counted up"):
        assert reporter.say(About("Pod", "p", "uid", "kube-system"), "ColocationWatchFailed", "why", now) == ""
    assert "cannot create resource" in reporter.say(About("Pod", "p", "uid", "default"), "No", "why", now)
    assert not may(server, access().token.content, "list", "events", namespace="kube-system")
