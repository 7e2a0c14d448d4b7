# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_token import (
    endpoint_of,
    join_configuration,
    make_token,
    pins,
    read_cluster_info,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.credentials_made import (
    AUTHORITY,
    KEY,
    certificate,
    coded,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import KubeDouble

WAY = {"endpoint": "10.0.0.1:6443", "pins": ["sha256:aa"], "token": "abcdef.0123456789abcdef"}


def test_a_pin_is_the_hash_of_the_public_key() -> None:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    key = KEY.public_key().public_bytes(serialization.Encoding.DER, form)
    expected = f"sha256:{hashlib.sha256(key).hexdigest()}"
    assert pins(AUTHORITY) == [expected]
    assert pins(AUTHORITY + "\n" + certificate("the next one", 0, 4e9)) == [expected, expected]


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_an_authority_that_is_none(text: str) -> None:
    with pytest.raises(RejoinRefused, match="cluster-info"):
        pins(text)


@pytest.mark.parametrize(
    ("server", "endpoint"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("https://api.example.com", "api.example.com:443"),
        ("https://[fd00::1]:6443/", "[fd00::1]:6443"),
    ],
)
def test_endpoints(server: str, endpoint: str) -> None:
    assert endpoint_of(server) == endpoint


@pytest.mark.parametrize("server", ["http://10.0.0.1", "https://a/prefix", "10.0.0.1:6443", ""])
def test_an_endpoint_that_kubeadm_would_not_take(server: str) -> None:
    with pytest.raises(RejoinRefused, match="host:port"):
        endpoint_of(server)


@pytest.mark.parametrize(
    ("version", "api"), [((1, 24), "v1beta3"), ((1, 30), "v1beta3"), ((1, 31), "v1beta4"), ((1, 40), "v1beta4")]
)
def test_the_configuration_that_each_kubeadm_knows(version: tuple[int, int], api: str) -> None:
    made = json.loads(join_configuration(version, "w", "/run/containerd/containerd.sock", WAY, {}))
    assert made["apiVersion"] == f"kubeadm.k8s.io/{api}"
    assert made["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "10.0.0.1:6443",
        "caCertHashes": ["sha256:aa"],
        "token": "abcdef.0123456789abcdef",
    }
    assert made["nodeRegistration"] == {"name": "w", "criSocket": "unix:///run/containerd/containerd.sock"}


def test_the_kubelets_flags_in_the_form_of_each_kubeadm() -> None:
    def extra(version: tuple[int, int]) -> Any:
        made = json.loads(join_configuration(version, "w", "/s", WAY, {"node-ip": "10.0.0.1", "v": 2}))
        return made["nodeRegistration"]["kubeletExtraArgs"]

    assert extra((1, 30)) == {"node-ip": "10.0.0.1", "v": "2"}
    assert extra((1, 31)) == [{"name": "node-ip", "value": "10.0.0.1"}, {"name": "v", "value": "2"}]


def test_a_token_ends_soon_and_there_is_one_of_an_operation() -> None:
    api: Any = KubeDouble()
    make_token(api, "op", 600, 0)
    token = make_token(api, "op", 600, 0)
    make_token(api, "other", 600, 0)
    found = api.items("/api/v1/namespaces/kube-system/secrets", label_selector="colocation.kubernetes/operation=op")
    assert len(found) == 1
    said = found[0]["stringData"]
    assert f"{said['token-id']}.{said['token-secret']}" == token
    assert said["expiration"] == "1970-01-01T00:10:00Z"
    assert (len(said["token-id"]), len(said["token-secret"])) == (6, 16)


@pytest.mark.parametrize(
    "kubeconfig",
    ["", "nonsense", "clusters: []", json.dumps({"clusters": [{"cluster": {"server": "https://a"}}]}),
     json.dumps({"clusters": [{"cluster": {"server": "https://a", "certificate-authority-data": "!"}}]})],
)  # fmt: skip
def test_cluster_info_that_does_not_tell(kubeconfig: str) -> None:
    api: Any = KubeDouble()
    with pytest.raises(RejoinRefused, match="kubeadm"):
        read_cluster_info(api)
    info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig}}
    api.post("/api/v1/namespaces/kube-public/configmaps", info)
    with pytest.raises(RejoinRefused, match="cluster-info"):
        read_cluster_info(api)


def test_cluster_info() -> None:
    api: Any = KubeDouble()
    cluster = {"server": "https://10.0.0.1:6443", "certificate-authority-data": coded(AUTHORITY)}
    text = json.dumps({"clusters": [{"cluster": cluster}]})
    info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": text}}
    api.post("/api/v1/namespaces/kube-public/configmaps", info)
    assert read_cluster_info(api) == ("https://10.0.0.1:6443", AUTHORITY)
    assert base64.b64decode(coded(AUTHORITY)).decode() == AUTHORITY
