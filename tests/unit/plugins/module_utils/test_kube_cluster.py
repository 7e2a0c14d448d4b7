# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is read of a cluster: versions as builds write them, images, addresses, nodes."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_cluster import ClusterUnclear, look
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.kube_api_double import KubeApiDouble

KUBEADM = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
SERVICE = "/api/v1/namespaces/default/services/kubernetes"


@pytest.fixture
def api() -> KubeApiDouble:
    made = KubeApiDouble()
    made.objects = {
        "/version": {"gitVersion": "v1.36.3"},
        "/apis": {"groups": [{"name": "metrics.k8s.io"}, {"name": "apps"}]},
        SERVICE: {"spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}},
    }
    return made


@pytest.mark.parametrize(
    ("said", "version", "minor"),
    [
        ("v1.36.3", "1.36.3", 36),
        ("v1.34.4+k3s1", "1.34.4", 34),
        ("v1.33.0-rc.1", "1.33.0-rc.1", 33),
        ("v1.31.9-eks-1234567", "1.31.9", 31),
    ],
)
def test_versions(api: KubeApiDouble, said: str, version: str, minor: int) -> None:
    api.objects["/version"]["gitVersion"] = said
    assert (look(api)["version"], look(api)["minor"]) == (version, minor)


def test_what_is_no_version(api: KubeApiDouble) -> None:
    api.objects["/version"]["gitVersion"] = "unknown"
    with pytest.raises(ClusterUnclear, match="'unknown', which is none"):
        look(api)


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        (None, "registry.k8s.io"),
        ("kind: ClusterConfiguration\nimageRepository: mirror.example/k8s\n", "mirror.example/k8s"),
        ('imageRepository: "mirror.example:5000/k8s"\n', "mirror.example:5000/k8s"),
        ("dns:\n  imageRepository: other.example\n", "registry.k8s.io"),
    ],
)
def test_where_images_come_from(api: KubeApiDouble, text: str | None, repository: str) -> None:
    if text:
        api.objects[KUBEADM] = {"data": {"ClusterConfiguration": text}}
    assert look(api)["image_repository"] == repository


def test_a_map_that_nobody_may_read(api: KubeApiDouble) -> None:
    get = api.get

    def refused(path: str, query: Any = None) -> Any:
        if path == KUBEADM:
            raise ApiError("403", 403)
        return get(path, query)

    api.get = refused  # type: ignore[method-assign]
    assert look(api)["image_repository"] == "registry.k8s.io"


def test_addresses(api: KubeApiDouble) -> None:
    assert look(api)["service_address"] == "https://10.96.0.1:443"
    api.objects[SERVICE]["spec"]["clusterIP"] = "fd00::1"
    assert look(api)["service_address"] == "https://[fd00::1]:443"
    del api.objects[SERVICE]
    assert look(api)["service_address"] == ""
    assert look(api)["api_groups"] == ["apps", "metrics.k8s.io"]


def test_nodes(api: KubeApiDouble) -> None:
    master = {"name": "m", "labels": {"node-role.kubernetes.io/control-plane": ""}}
    addresses = [{"type": "Hostname", "address": "w"}, {"type": "InternalIP", "address": "10.0.0.2"}]
    ready = [{"type": "Ready", "status": "True"}]
    api.objects["/api/v1/nodes/w"] = {
        "metadata": {"name": "w"},
        "status": {"addresses": addresses, "conditions": ready},
    }
    api.objects["/api/v1/nodes/m"] = {"metadata": master}
    assert look(api)["nodes"] == [
        {"name": "m", "address": "", "control_plane": True, "ready": False},
        {"name": "w", "address": "10.0.0.2", "control_plane": False, "ready": True},
    ]
