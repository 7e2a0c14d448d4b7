# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kubeconfigs as kubeadm, managed clusters and our own role write them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from colocation.common.kube_access import Access, AccessError, Material, from_kubeconfig, from_pod

SECRET = "this-is-secret"


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(user: dict[str, object], **cluster: object) -> str:
    server = {"server": "https://10.0.0.1:6443", "certificate-authority-data": coded("CA")}
    other = {"name": "other", "user": {"token": "no"}}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": server | cluster}],
            "users": [other, {"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def test_the_kubelets_own() -> None:
    pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    text = kubeconfig({"client-certificate": pem, "client-key": pem})
    access = from_kubeconfig(text, "/etc/kubernetes/kubelet.conf")
    assert access == Access(
        "10.0.0.1",
        6443,
        Material(content="CA"),
        Material(pem),
        Material(pem),
        source="/etc/kubernetes/kubelet.conf",
    )
    assert access.files == ("/etc/kubernetes/kubelet.conf", pem, pem)
    assert access.server == "https://10.0.0.1:6443"


def test_paths_are_relative_to_the_file() -> None:
    text = kubeconfig({"tokenFile": "token", "token": SECRET}, **{"certificate-authority": "pki/ca.crt"})
    access = from_kubeconfig(text.replace(f"    certificate-authority-data: {coded('CA')}\n", ""), "/etc/k/config")
    assert access.token == Material("/etc/k/token")
    assert access.ca == Material("/etc/k/pki/ca.crt")


def test_certificates_in_the_file_and_a_proxy() -> None:
    user = {"client-certificate-data": coded("CERT"), "client-key-data": coded(SECRET)}
    text = kubeconfig(user, server="https://[fd00::1]/k8s/c1/", **{"tls-server-name": "api"})
    access = from_kubeconfig(text, "/a")
    assert (access.host, access.port, access.prefix, access.server_name) == ("fd00::1", 443, "/k8s/c1", "api")
    assert access.server == "https://[fd00::1]:443/k8s/c1"
    assert (access.certificate.content, access.key.content) == ("CERT", SECRET)
    assert SECRET not in repr(access)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "/a has no context named ''"),
        ("a: [", "/a:1: is no YAML"),
        (kubeconfig({}), "neither a client certificate nor a token"),
        (kubeconfig({"client-certificate": "/c"}), "belong together"),
        (kubeconfig({"exec": {"command": "aws"}}), "'exec', which agents can't use"),
        (kubeconfig({"username": "a", "password": SECRET}), "'username', which agents can't use"),
        (kubeconfig({"token": SECRET}, server="http://10.0.0.1"), "no API server with https, but 'http://10.0.0.1'"),
        (kubeconfig({"token": SECRET}, server="https://a:b"), "is no address"),
        (kubeconfig({"token": SECRET}, **{"insecure-skip-tls-verify": True}), "turns off the check"),
        (kubeconfig({"client-key-data": "%" + SECRET}), "client-key-data is not base64"),
        (kubeconfig({"token": SECRET}).replace("user: u", "user: v"), "/a has no user named 'v'"),
    ],
)
def test_what_can_not_be_used_is_said_without_secrets(text: str, said: str) -> None:
    with pytest.raises(AccessError) as caught:
        from_kubeconfig(text, "/a")
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(AccessError):
        from_kubeconfig(text, "/a")


def test_a_pods_account(tmp_path: Path) -> None:
    access = from_pod({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, str(tmp_path))
    assert (access.server, access.token.file) == ("https://10.96.0.1:443", str(tmp_path / "token"))
    with pytest.raises(AccessError, match="this is no pod"):
        from_pod({})
