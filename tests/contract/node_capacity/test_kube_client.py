# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The modules' client against a real API server: every way to prove who we are, kept connections, pages, trouble."""

from __future__ import annotations

import gc
import json
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_connection import Wire
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.proxy_double import ProxyDouble

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def client_for(**options: Any) -> KubeClient:
    return KubeClient(find_access(options, {}, "/nowhere", "/nowhere"), timeout=10)


def who(**options: Any) -> tuple[str, list[str]]:
    with client_for(**options) as client:
        info = client.post(REVIEWS, REVIEW)["status"]["userInfo"]
        return info["username"], [group for group in info.get("groups", []) if not group.startswith("system:auth")]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Wire]:
    """Each connection that is made."""
    made: list[Wire] = []
    genuine = Wire.connect

    def connect(wire: Wire) -> None:
        made.append(wire)
        genuine(wire)

    monkeypatch.setattr(Wire, "connect", connect)
    return made


@pytest.fixture
def token(nodes: Nodes) -> str:
    uid = nodes.client.get("/api/v1/namespaces/default/serviceaccounts/default")["metadata"]["uid"]
    return nodes.server.account_token("default", "default", uid, 600)


def test_certificates_from_files_and_from_the_kubeconfig(api_server: ApiServer, tmp_path: Path) -> None:
    certificate, key = api_server.user("jane", "dev")
    (tmp_path / "c").write_text(certificate)
    (tmp_path / "k").write_text(key)
    files = {"client_cert": str(tmp_path / "c"), "client_key": str(tmp_path / "k"), "ca_cert": str(api_server.ca_file)}
    assert who(host=api_server.server, **files) == ("jane", ["dev"])
    assert who(kubeconfig=api_server.kubeconfig("joe", "ops")) == ("joe", ["ops"])
    (tmp_path / "c").write_text("no certificate")
    with pytest.raises(ApiError, match="client certificate .* can't be used"):
        who(host=api_server.server, **files)


def test_acting_as_another(api_server: ApiServer) -> None:
    config = api_server.kubeconfig()
    assert who(kubeconfig=config, impersonate_user="jane", impersonate_groups=["a", "b"]) == ("jane", ["a", "b"])
    config["users"][0]["user"] |= {"as": "kim", "as-groups": ["c"], "as-uid": "7", "as-user-extra": {"k/x": ["v"]}}
    assert who(kubeconfig=config) == ("kim", ["c"])
    with pytest.raises(ApiError, match="can't be asked: ValueError"):
        who(kubeconfig=config, impersonate_user="a\r\nAuthorization: x")


def test_a_program_for_credentials(api_server: ApiServer, tmp_path: Path, token: str) -> None:
    count = tmp_path / "count"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\necho x >> {count}\ncat <<'EOF'\n{json.dumps(answer)}\nEOF\n")
    program.chmod(0o755)
    config = api_server.kubeconfig()
    config["users"][0]["user"] = {"exec": {"apiVersion": answer["apiVersion"], "command": str(program)}}
    with client_for(kubeconfig=config) as client:
        for _ask in range(3):
            client.post(REVIEWS, REVIEW)
        assert count.read_text() == "x\n"  # asked once
        assert token in client.secrets()
    assert who(kubeconfig=config)[0] == "system:serviceaccount:default:default"


def test_a_token_that_is_rotated_while_we_run(api_server: ApiServer, nodes: Nodes, tmp_path: Path, token: str) -> None:
    uid = nodes.client.get("/api/v1/namespaces/default/serviceaccounts/default")["metadata"]["uid"]
    file = tmp_path / "token"
    file.write_text(api_server.account_token("default", "default", uid, -60))
    config = api_server.kubeconfig()
    config["users"][0]["user"] = {"tokenFile": str(file)}
    with client_for(kubeconfig=config) as client:
        with pytest.raises(ApiError) as refused:
            client.post(REVIEWS, REVIEW)
        assert refused.value.status == 401
        file.write_text(token)
        assert client.post(REVIEWS, REVIEW)["status"]["userInfo"]["username"].endswith(":default")


def test_a_hostile_token_is_never_shown(api_server: ApiServer) -> None:
    for bad in ("two words", "line\nbreak", "naïve"):
        with pytest.raises(ApiError) as refused:
            who(host=api_server.server, api_key=bad, ca_cert=str(api_server.ca_file))
        assert bad not in str(refused.value) and "characters" in str(refused.value)


def test_which_certificate_the_server_must_have(api_server: ApiServer) -> None:
    config = api_server.kubeconfig("jane", "dev")
    elsewhere = {"kubeconfig": config, "host": api_server.server.replace("127.0.0.1", "localhost")}
    with pytest.raises(ApiError, match="certificate is refused: .*localhost"):
        who(**elsewhere)
    assert who(**elsewhere, tls_server_name="kubernetes.test")[0] == "jane"
    assert who(**elsewhere, validate_certs=False)[0] == "jane"


def test_pages_and_selectors(nodes: Nodes) -> None:
    names = nodes.make(*(f"n{number:02}" for number in range(23)))
    found = nodes.client.items("/api/v1/nodes", label_selector=f"test={nodes.label}", page=5)
    assert [node["metadata"]["name"] for node in found] == names
    one = nodes.client.items("/api/v1/nodes", field_selector=f"metadata.name={names[3]}")
    assert [node["metadata"]["name"] for node in one] == [names[3]]


def test_connections_are_kept_and_threads_have_their_own(nodes: Nodes, connections: list[Wire]) -> None:
    with client_for(kubeconfig=nodes.kubeconfig) as client:
        for _ask in range(20):
            client.get("/api/v1/namespaces/default")
        assert len(connections) == 1
        threads = [
            threading.Thread(target=lambda: [client.get("/api/v1/namespaces/default") for _ask in range(10)])
            for _thread in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(connections) <= 4


def test_errors_carry_what_the_api_said(nodes: Nodes) -> None:
    with pytest.raises(ApiError) as missing:
        nodes.client.get(api_path("api", "v1", "nodes", "a/../b"))
    assert (missing.value.status, missing.value.reason) == (404, "NotFound")  # one name, which leads nowhere else
    with pytest.raises(ApiError) as invalid:
        nodes.client.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "A_"}})
    assert (invalid.value.status, invalid.value.reason) == (422, "Invalid")
    assert invalid.value.causes[0].field == "metadata.name"
    with pytest.raises(ApiError) as conflict:
        nodes.client.post(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        )
    assert (conflict.value.status, conflict.value.reason) == (409, "AlreadyExists")


def test_dry_runs_and_deletions(nodes: Nodes) -> None:
    [name] = nodes.make("a")
    path = f"/api/v1/nodes/{name}"
    assert nodes.client.patch(path, {"spec": {"unschedulable": True}}, dry_run=True)["spec"]["unschedulable"]
    nodes.client.delete(path, dry_run=True)
    assert "unschedulable" not in nodes.client.get(path)["spec"]
    nodes.client.delete(path)
    with pytest.raises(ApiError):
        nodes.client.get(path)


def test_the_server_is_restarted_under_a_kept_connection(nodes: Nodes) -> None:
    path = "/api/v1/namespaces/default"
    nodes.client.get(path)
    nodes.server.kill()
    with pytest.raises(ApiError, match="can't be reached: Connection refused") as refused:
        nodes.client.get(path)
    assert refused.value.sent is False
    nodes.server.start()
    assert nodes.client.get(path)["metadata"]["name"] == "default"
    nodes.server.kill()
    nodes.server.start()
    nodes.client.patch(path, {"metadata": {"labels": {"again": "1"}}})  # not sent on the connection that is dead


def test_a_server_that_hangs_meets_the_limit(nodes: Nodes) -> None:
    with KubeClient(find_access({"kubeconfig": nodes.kubeconfig}), timeout=0.5, tries=1) as client:
        client.get("/api/v1/namespaces/default")
        nodes.server.pause()
        try:
            with pytest.raises(ApiError, match="no answer within the time limit") as silent:
                client.get("/api/v1/namespaces/default")
        finally:
            nodes.server.resume()
    assert silent.value.sent is True


@pytest.fixture
def proxy() -> Iterator[ProxyDouble]:
    double = ProxyDouble()
    yield double
    double.stop()


def test_through_a_proxy(api_server: ApiServer, proxy: ProxyDouble) -> None:
    port, asked = proxy.port, proxy.asked
    config = api_server.kubeconfig("jane", "dev")
    assert who(kubeconfig=config, proxy=f"http://u:p@127.0.0.1:{port}")[0] == "jane"
    assert asked[0].startswith(f"CONNECT 127.0.0.1:{api_server.port}".encode())
    headers = {"proxy_basic_auth": "u:p"}
    assert who(kubeconfig=config, proxy=f"127.0.0.1:{port}", proxy_headers=headers)[0] == "jane"
    with pytest.raises(ApiError, match="407"):
        who(kubeconfig=config, proxy=f"http://u:wrong@127.0.0.1:{port}")
    with warnings.catch_warnings():  # http.client of Python 3.11.2 leaves a refused tunnel's socket to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    before = len(asked)
    assert who(kubeconfig=config, proxy=f"127.0.0.1:{port}", no_proxy="127.0.0.0/8")[0] == "jane"
    assert len(asked) == before
