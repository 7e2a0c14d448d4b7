# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The story's objects before a real API server, through a real `kubectl proxy`, as ./demo asks."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import binary, kubernetes
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.run.story import readings, workloads
from ansible_collections.colocation.kubernetes.tests.run.story.api import Api, ApiFailed

LIMIT = 30.0


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One of our own: without its controllers, pods and namespaces that are deleted stay for ever."""
    with ApiServer(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture
def api(own_server: ApiServer, tmp_path: Path) -> Iterator[Api]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(own_server.kubeconfig()))
    socket = tmp_path / "api"
    kubectl = binary(kubernetes(own_server.minor), "kubectl")
    words = [str(kubectl), f"--kubeconfig={kubeconfig}", "proxy", f"--unix-socket={socket}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*ENDS_WITH_US, *words], stdout=log, stderr=log)
    try:
        end = time.monotonic() + LIMIT
        while b"Starting to serve" not in (tmp_path / "log").read_bytes():  # the socket is there before it listens
            assert process.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.02)
        api = Api(socket)
        api.apply(workloads.namespace())
        yield api
    finally:
        process.terminate()
        process.wait()


def test_everything_is_taken_as_it_is_written(api: Api) -> None:
    """A field that the API does not know would be left out of what it answers, or refused."""
    new = [workloads.new_pods(role) for role in ("use", "requests")]
    for thing in (workloads.batch(), workloads.online("worker1", 1000), *new, *workloads.migrator()):
        api.apply(thing)
        api.apply(thing)  # a second telling
        assert api.there(thing)
        api.delete(thing)


def test_pods_are_refused_only_for_want_of_an_account(api: Api) -> None:
    """There is no controller manager here that makes the namespace's default account."""
    with pytest.raises(ApiFailed, match='serviceaccount \\\\"default\\\\" not found'):
        api.apply(workloads.web("web-1", "worker1"))
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.apply({**account, "metadata": {"name": "default", "namespace": workloads.NAMESPACE}})
    pods = [workloads.web("web-1", "worker1"), workloads.gpu("gpu-1", "worker2", "doslab.io/gpu-memory")]
    for pod in pods:
        api.apply(pod)
    found = api.get("/api/v1/pods")
    assert len(workloads.placed(found["items"], "web")) == 1
    assert readings.of_pods(found, ["worker1"])  # they wait, and count nowhere


def test_the_migrator_gets_a_token_and_may_list(api: Api) -> None:
    for thing in workloads.migrator():
        api.apply(thing)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    place = f"/api/v1/namespaces/{workloads.NAMESPACE}/serviceaccounts/{workloads.MIGRATOR}/token"
    assert api.post(place, asked)["status"]["token"].count(".") == 2
    user = f"system:serviceaccount:{workloads.NAMESPACE}:{workloads.MIGRATOR}"
    may = {what: _may(api, user, *what) for what in [("list", "nodes"), ("list", "pods"), ("get", "secrets")]}
    assert list(may.values()) == [True, True, False]


def _may(api: Api, user: str, verb: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {"verb": verb, "resource": resource}},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
