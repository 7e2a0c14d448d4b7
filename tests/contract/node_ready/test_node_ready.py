# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_ready with a kubelet's identity against a real API server, whose Node authorizer holds it to its own node."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import (
    _kube_config,
    _kubelet_identity,
    _node_kubelet,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.modules import node_ready
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.breakages import (
    BREAKAGES,
    CREDENTIALS_PROGRAM,
    PROGRAMS_KUBECONFIG,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

NAME = "ready-worker"
PEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def at(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
def admin(api_server: ApiServer) -> Iterator[KubeClient]:
    with KubeClient(find_access({"kubeconfig": api_server.kubeconfig()})) as client:
        client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
        yield client
        client.delete(f"/api/v1/nodes/{NAME}")


@pytest.fixture
def kubelet_conf(api_server: ApiServer, tmp_path: Path) -> Path:
    """As kubeadm writes it: YAML, with the certificate beside it."""
    certificate, key = api_server.user(f"system:node:{NAME}", "system:nodes")
    (tmp_path / "pem").write_text(certificate + key)
    authority = api_server.kubeconfig()["clusters"][0]["cluster"]["certificate-authority-data"]
    (tmp_path / "kubelet.conf").write_text(
        "apiVersion: v1\nclusters:\n- cluster:\n"
        f"    certificate-authority-data: {authority}\n    server: {api_server.server}\n  name: c\n"
        "contexts:\n- context:\n    cluster: c\n    user: u\n  name: x\ncurrent-context: x\nkind: Config\n"
        f"preferences: {{}}\nusers:\n- name: u\n  user:\n    client-certificate: {tmp_path}/pem\n"
        f"    client-key: {tmp_path}/pem\n"
    )
    return tmp_path / "kubelet.conf"


def ready(client: KubeClient, renewed: float) -> None:
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"}
    client.patch(f"/api/v1/nodes/{NAME}/status", {"status": {"conditions": [condition]}})
    lease: dict[str, Any] = {"metadata": {"name": NAME}, "spec": {"holderIdentity": NAME, "renewTime": at(renewed)}}
    try:
        client.post(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    except ApiError:
        client.patch(f"{LEASES}/{NAME}", lease)


@pytest.mark.parametrize("with_yaml", [True, False])
def test_a_ready_node(admin: KubeClient, kubelet_conf: Path, monkeypatch: pytest.MonkeyPatch, with_yaml: bool) -> None:
    if not with_yaml:
        monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)
    ready(admin, time.time() + 60)
    assert call(node_ready.main, kubeconfig=str(kubelet_conf), timeout=10) == {
        "changed": False,
        "node": NAME,
        "kubeconfig": str(kubelet_conf),
        "ready": True,
        "reason": "",
        "invocation": {"module_args": {"kubeconfig": str(kubelet_conf), "timeout": 10}},
        "warnings": [],
    }


def test_a_server_that_can_not_say_who_we_are(
    admin: KubeClient, kubelet_conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 1.28: the review is not there, which to a kubelet is forbidden."""
    monkeypatch.setattr(_kubelet_identity, "_REVIEWS", "/apis/authentication.k8s.io/v1/reviewsofnobody")
    ready(admin, time.time() + 60)
    answer = call(node_ready.main, kubeconfig=str(kubelet_conf), timeout=10)
    assert (answer.get("node"), answer.get("ready")) == (NAME, True), answer


@pytest.fixture
def elsewhere(kubelet_conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As on a node of a cloud: the kubelet was told another kubeconfig, and a program prints its certificate."""
    program, path = tmp_path / "kubelet-credentials", tmp_path / "kubeconfig"
    program.write_text(CREDENTIALS_PROGRAM.replace(PEM, str(tmp_path / "pem")))
    program.chmod(0o755)
    cluster = kubelet_conf.read_text().split("contexts:")[0]
    user = PROGRAMS_KUBECONFIG.partition("clusters:")[0].replace("/usr/local/bin/kubelet-credentials", str(program))
    path.write_text(user.replace("cluster: kubernetes", "cluster: c") + cluster.removeprefix("apiVersion: v1\n"))
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("kubelet\n")
    (tmp_path / "proc/77/cmdline").write_text(f"/usr/bin/kubelet\0--kubeconfig={path}\0--hostname-override={NAME}\0")
    for module in (_kubelet_identity, node_ready):
        monkeypatch.setattr(module, "kubelets_kubeconfig", lambda: _node_kubelet.kubelets_kubeconfig(str(tmp_path)))
    monkeypatch.setattr(
        _kubelet_identity, "find_process", lambda _root, name: _node_kubelet.find_process(str(tmp_path), name)
    )
    return path


@pytest.mark.parametrize("with_yaml", [True, False])
def test_a_kubelet_with_a_program_and_its_kubeconfig_elsewhere(
    admin: KubeClient, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, with_yaml: bool
) -> None:
    if not with_yaml:
        monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)
    ready(admin, time.time() + 60)
    answer = call(node_ready.main, timeout=10)
    assert (answer.get("node"), answer.get("ready"), answer.get("kubeconfig")) == (NAME, True, str(elsewhere)), answer


def test_a_token_whose_user_is_no_node_is_of_the_node_that_the_kubelet_was_told(
    admin: KubeClient, elsewhere: Path, api_server: ApiServer, tmp_path: Path
) -> None:
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    account = admin.post(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ready-test"}})
    subject = {"kind": "ServiceAccount", "name": "ready-test", "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    admin.post(bindings, {**binding, "metadata": {"name": "ready-test"}, "roleRef": role, "subjects": [subject]})
    token = tmp_path / "token"
    token.write_text(api_server.account_token("kube-system", "ready-test", account["metadata"]["uid"], 600))
    config = api_server.kubeconfig()
    config["users"][0]["user"] = {"tokenFile": str(token)}
    elsewhere.write_text(json.dumps(config))
    ready(admin, time.time() + 60)
    try:
        answer = call(node_ready.main, timeout=10)
        assert (answer.get("node"), answer.get("ready")) == (NAME, True), answer
        token.write_text("not.a.token")
        assert "401" in node_ready.look(None, 0)[1].reason
    finally:
        admin.delete(f"{bindings}/ready-test")
        admin.delete(f"{accounts}/ready-test")


def test_the_proof_of_the_recipe_that_makes_such_a_node(admin: KubeClient, elsewhere: Path, tmp_path: Path) -> None:
    """It is for root in a VM; here with another place for each of its files, and the Node's name."""
    check = BREAKAGES["kubelet-kubeconfig-elsewhere"].check
    proof = check.split("<<'PYTHON'\n")[1].split("PYTHON\n")[0].replace("+ 200", "+ 1")
    (tmp_path / "ca.crt").write_text(find_access({"kubeconfig": str(elsewhere)}).ca.content)
    for known, here in (
        ("/var/lib/kubelet/kubeconfig", str(elsewhere)), ("/etc/kubernetes/pki/ca.crt", f"{tmp_path}/ca.crt"),
        (PEM, f"{tmp_path}/pem"), ("os.uname().nodename.lower()", repr(NAME)),
    ):  # fmt: skip
        assert known in proof
        proof = proof.replace(known, here)
    ready(admin, time.time())

    def run(since: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-", str(int(since))]
        return subprocess.run(command, input=proof, capture_output=True, text=True, check=False, timeout=60)

    assert run(time.time() - 60).returncode == 0
    late = run(time.time() + 60)
    assert (late.returncode, "has not spoken since it began" in late.stderr) == (1, True)


def test_a_program_that_fails_says_why(admin: KubeClient, elsewhere: Path, tmp_path: Path) -> None:
    (tmp_path / "kubelet-credentials").write_text("#!/bin/sh\necho the cloud is down >&2\nexit 3\n")
    assert "ended with 3 instead of credentials: the cloud is down" in node_ready.look(None, 0)[1].reason


def test_what_keeps_it_from_being_ready(admin: KubeClient, kubelet_conf: Path) -> None:
    ready(admin, time.time() - 60)
    _name, found = node_ready.look(str(kubelet_conf), time.time())
    assert "its kubelet has not spoken" in found.reason
    kubelet_conf.write_text(kubelet_conf.read_text().replace("127.0.0.1", "localhost"))
    _name, found = node_ready.look(str(kubelet_conf), 0)
    assert "certificate is refused" in found.reason, json.dumps(found.reason)
    kubelet_conf.unlink()
    assert "never joined" in node_ready.look(str(kubelet_conf), 0)[1].reason
