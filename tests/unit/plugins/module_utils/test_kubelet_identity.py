# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reading kubelet.conf, as kubeadm writes it and as managed clusters do, with and without PyYAML."""

from __future__ import annotations

import base64
import platform
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_config, _kubelet_identity
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import (
    node_name,
    read_identity,
    user_name,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made

KUBEADM = """
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: {server}
  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
preferences: {{}}
users:
- name: default-auth
  user: {user}
"""
FILES = """
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
"""


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def written(directory: Path, server: str = "https://10.0.0.1:6443", user: str = FILES) -> str:
    path = directory / "kubelet.conf"
    path.write_text(KUBEADM.format(ca=coded("the CA"), server=server, user=user))
    return str(path)


@pytest.fixture(params=[True, False], ids=["PyYAML", "plain Python"], autouse=True)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)


def test_kubeadm(tmp_path: Path) -> None:
    identity = read_identity(written(tmp_path))
    assert (identity.server, identity.ca) == ("https://10.0.0.1:6443", Material(content="the CA"))
    assert identity.certificate == identity.key == Material("/var/lib/kubelet/pki/kubelet-client-current.pem")


def test_certificates_in_the_file(tmp_path: Path) -> None:
    user = f"\n    client-certificate-data: {coded('C')}\n    client-key-data: {coded('K')}"
    identity = read_identity(written(tmp_path, user=user))
    assert (identity.certificate, identity.key) == (Material(content="C"), Material(content="K"))
    assert "K" in set(identity.secrets())


EXEC = """
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args:
        - "token"
        - "-i"
        - my-cluster
"""


def test_a_token_and_a_program(tmp_path: Path) -> None:
    assert read_identity(written(tmp_path, user="\n    token: abc")).token == Material(content="abc")
    assert read_identity(written(tmp_path, user="\n    tokenFile: /run/token")).token == Material("/run/token")
    program = read_identity(written(tmp_path, user=EXEC)).exec_plugin
    assert program and (program.command, program.arguments[-1]) == ("/usr/bin/aws-iam-authenticator", "my-cluster")


def test_without_a_path_it_is_that_of_the_kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = written(tmp_path, user=EXEC)
    monkeypatch.setattr(_kubelet_identity, "kubelets_kubeconfig", lambda: conf)
    assert read_identity().exec_plugin is not None


def test_errors_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="never joined"):
        read_identity(str(tmp_path / "kubelet.conf"))
    with pytest.raises(AccessError, match="no API server with https"):
        read_identity(written(tmp_path, server="http://a"))
    with pytest.raises(AccessError, match="no client certificate, token or program"):
        read_identity(written(tmp_path, user="{}"))
    with pytest.raises(AccessError, match="no current-context"):
        (tmp_path / "kubelet.conf").write_text("server: https://a")
        read_identity(str(tmp_path / "kubelet.conf"))


class Api(KubeClient):
    """An API server that answers the question who we are, or has not got it."""

    def __init__(self, conf: str, status: int, user: str = "") -> None:
        super().__init__(read_identity(conf))
        self.status, self.user = status, user

    def post(self, path: str, body: Any, **_options: Any) -> Any:
        if self.status != 201:
            raise ApiError("no", self.status)
        return {"status": {"userInfo": {"username": self.user}}}


def test_the_nodes_name_is_who_the_api_server_takes_us_for(tmp_path: Path) -> None:
    assert node_name(Api(written(tmp_path), 201, "system:node:w1.example")) == "w1.example"


@pytest.mark.parametrize("status", [403, 404])
def test_a_server_before_1_28_can_not_tell_and_the_certificate_does(tmp_path: Path, status: int) -> None:
    pem = tmp_path / "current.pem"
    pem.write_text(made.certificate("system:node:w1.example", 0, 1))
    api = Api(written(tmp_path, user=f"\n    client-certificate: {pem}\n    client-key: {pem}"), status)
    assert (user_name(api), node_name(api)) == ("", "w1.example")
    pem.write_text("damaged")
    assert node_name(api) == platform.node().lower()
    pem.unlink()
    assert node_name(api) == platform.node().lower()


def test_where_neither_tells_the_kubelet_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kubelet_identity, "read_flags", lambda *_root: {"hostname-override": "W3"})
    assert node_name(Api(written(tmp_path, user=EXEC), 404)) == "w3"
    assert node_name(Api(written(tmp_path, user="\n    token: abc"), 201, "somebody")) == "w3"


def test_a_server_that_does_not_know_us_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ApiError):
        node_name(Api(written(tmp_path), 401))
