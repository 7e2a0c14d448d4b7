# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reading kubelet.conf, as kubeadm writes it and as managed clusters do."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import (
    IdentityError,
    parse_identity,
    read_identity,
)

KUBEADM = """
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: https://10.0.0.1:6443
  name: default-cluster
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
"""


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_kubeadm() -> None:
    identity = parse_identity(KUBEADM.format(ca=coded("the CA")))
    assert (identity.server, identity.ca_pem) == ("https://10.0.0.1:6443", "the CA")
    assert identity.certificate == identity.key == "/var/lib/kubelet/pki/kubelet-client-current.pem"
    assert identity.certificate_data == ""


def test_certificates_in_the_file() -> None:
    text = f"server: https://a\nclient-certificate-data: {coded('C')}\nclient-key-data: {coded('K')}\n"
    identity = parse_identity(text)
    assert (identity.certificate_data, identity.key_data, identity.certificate) == ("C", "K", "")


@given(st.text())
def test_anything_is_read_without_a_crash(text: str) -> None:
    parse_identity(text)


def test_errors_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="never joined"):
        read_identity(str(tmp_path / "kubelet.conf"))
    (tmp_path / "kubelet.conf").write_text("server: http://a")
    with pytest.raises(IdentityError, match="no API server with https"):
        read_identity(str(tmp_path / "kubelet.conf"))
    (tmp_path / "kubelet.conf").write_text("server: https://a")
    with pytest.raises(IdentityError, match="no client certificate"):
        read_identity(str(tmp_path / "kubelet.conf"))
