# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reading kubelet.conf, as kubeadm writes it and as managed clusters do, with and without PyYAML."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_config
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import read_identity

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


def test_errors_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="never joined"):
        read_identity(str(tmp_path / "kubelet.conf"))
    with pytest.raises(AccessError, match="no API server with https"):
        read_identity(written(tmp_path, server="http://a"))
    with pytest.raises(AccessError, match="no client certificate"):
        read_identity(written(tmp_path, user="{}"))
    with pytest.raises(AccessError, match="no current-context"):
        (tmp_path / "kubelet.conf").write_text("server: https://a")
        read_identity(str(tmp_path / "kubelet.conf"))
