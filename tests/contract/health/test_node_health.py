# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_health and kubelet_mend against a real API server, whose Node authorizer holds them to their own node.

The node's files are a tree of ours and its runtime is a double; the API server, certificates and rights are real.
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_object import read_node_object
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_parts import Outside
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ask_api
from ansible_collections.colocation.kubernetes.plugins.modules import kubelet_mend, node_health
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.breakages import CREDENTIALS_PROGRAM
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import CONFIG, CURRENT, HealthNode
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

NAME = "health-worker"
NODE = f"/api/v1/nodes/{NAME}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps"
CA, CONF, CONFIG_FILE = "etc/kubernetes/pki/ca.crt", "etc/kubernetes/kubelet.conf", "var/lib/kubelet/config.yaml"


class Site:
    """A node that is a member of a real cluster."""

    def __init__(self, server: ApiServer, admin: KubeClient, root: Path) -> None:
        self.server = server
        self.admin = admin
        self.root = root
        self.node = HealthNode(root)
        self.node.now = time.time()
        self.node.write(CA, server.ca_pem)
        self.join(server)

    def join(self, server: ApiServer) -> None:
        """A kubeconfig with its certificate inside, for the tree is not at /."""
        self.pem = "".join(server.user(f"system:node:{NAME}", "system:nodes"))
        (self.root / CURRENT).unlink(missing_ok=True)
        data = {"client-certificate-data": made.coded(self.pem), "client-key-data": made.coded(self.pem)}
        authority = {"server": self.server.server, "certificate-authority-data": made.coded(server.ca_pem)}
        self.node.write(CONF, made.kubeconfig(data, **authority))

    def outside(self) -> Outside:
        node = self.node
        return Outside(node.run, ask_api, node.ask_runtime, read_node_object, time.time)

    def ids(self) -> list[str]:
        return [finding["id"] for finding in call(node_health.main, answer_timeout=3, authority_days=0)["findings"]]

    def speak(self, ready: str = "True", **status: Any) -> None:
        """What a kubelet would say now."""
        condition = {"type": "Ready", "status": ready, "reason": "Test", "message": "said the test"}
        body = {"status": {"conditions": [condition], **status}}
        identity = find_access({"kubeconfig": self.server.kubeconfig(f"system:node:{NAME}", "system:nodes")})
        with KubeClient(identity, user_agent="kubelet") as kubelet:
            kubelet.patch(f"{NODE}/status", body)
        moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"metadata": {"name": NAME}, "spec": {"holderIdentity": NAME, "renewTime": moment}}
        try:
            self.admin.post(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
        except ApiError:
            self.admin.patch(f"{LEASES}/{NAME}", lease)


@pytest.fixture
def site(api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with KubeClient(find_access({"kubeconfig": api_server.kubeconfig()})) as admin:
        metadata = {"name": NAME, "labels": {"made": "by-a-test"}}  # without any, the API keeps no managedFields
        admin.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        site = Site(api_server, admin, tmp_path)
        site.speak()
        for module in (node_health, kubelet_mend):
            monkeypatch.setattr(module, "ROOT", str(tmp_path))
            monkeypatch.setattr(module, "run_for", lambda command, seconds: site.node.run(command))
        monkeypatch.setattr(node_health, "Outside", lambda _run: site.outside())
        yield site
        for path in (NODE, f"{LEASES}/{NAME}", f"{CONFIG_MAP}/kubelet-config"):
            try:
                admin.delete(path)
            except ApiError:
                pass


def test_a_member_of_the_cluster(site: Site) -> None:
    assert site.ids() == []
    site.speak("False")
    assert site.ids() == ["node-not-ready"]
    site.admin.patch(NODE, {"spec": {"unschedulable": True}})
    site.speak(capacity={"mock.com/gpu": "10"}, allocatable={"mock.com/gpu": "0"})
    site.node.write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "half")
    assert site.ids() == ["device-checkpoint", "node-cordoned"]  # what it does not tell is not guessed
    site.node.write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", EMPTY_CHECKPOINT)
    assert site.ids() == ["node-cordoned", "resource-leftover"]
    site.admin.delete(NODE)
    assert site.ids() == ["node-missing"]


def of_a_cloud(site: Site, program: str) -> None:
    """Its kubelet's kubeconfig is elsewhere, with a program in it; no certificate is where kubelets have theirs."""
    (site.root / CONF).unlink()
    shutil.rmtree((site.root / CURRENT).parent)
    path = site.root / "credentials"
    path.write_text(program)
    path.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}
    authority = {"server": site.server.server, "certificate-authority-data": made.coded(site.server.ca_pem)}
    site.node.write("var/lib/kubelet/kubeconfig", made.kubeconfig(user, **authority))
    flags = ("--kubeconfig=/var/lib/kubelet/kubeconfig", "--config=/var/lib/kubelet/config.yaml")
    site.node.kubelet_process("/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", *flags)


def test_a_node_of_a_cloud(site: Site) -> None:
    """The API server knows the Node's name: no certificate has it, and the host has another."""
    (site.root / "pem").write_text(site.pem)
    program = CREDENTIALS_PROGRAM.replace("/var/lib/kubelet/pki/kubelet-client-current.pem", f"{site.root}/pem")
    of_a_cloud(site, program)
    told = call(node_health.main, answer_timeout=3, authority_days=0)
    assert (told["findings"], told["node"], told["certificate_days_left"]) == ([], NAME, None)
    assert told["kubeconfig"] == "/var/lib/kubelet/kubeconfig"
    (site.root / CONFIG_FILE).unlink()
    (finding,) = call(node_health.main, answer_timeout=3, authority_days=0)["findings"]
    assert (finding["id"], finding["steps"], finding["mendable"]) == ("kubelet-config", [], False)
    mended = call(kubelet_mend.main, state_dir=str(site.root / "state"))
    assert not mended["changed"] and "kubeadm did not join this node" in mended["left"][0]


def test_a_stranger_on_a_node_of_a_cloud(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = ApiServer(tmp_path_factory.mktemp("other"))
    (site.root / "pem").write_text("".join(other.user(f"system:node:{NAME}", "system:nodes")))
    program = CREDENTIALS_PROGRAM.replace("/var/lib/kubelet/pki/kubelet-client-current.pem", f"{site.root}/pem")
    of_a_cloud(site, program)
    (finding,) = call(node_health.main, answer_timeout=3, authority_days=0)["findings"]
    assert (finding["id"], finding["steps"]) == ("node-refused", [])
    (site.root / "credentials").write_text("#!/bin/sh\necho no way >&2\nexit 1\n")
    (finding,) = call(node_health.main, answer_timeout=3, authority_days=0)["findings"]
    assert finding["id"] == "node-unknown" and "instead of credentials: no way" in finding["evidence"]


def test_an_api_that_is_gone_or_hangs(site: Site) -> None:
    site.server.pause()
    try:
        began = time.monotonic()
        assert site.ids() == ["api-unreachable"]
        assert time.monotonic() - began < 30
    finally:
        site.server.resume()
    site.server.kill()
    try:
        assert site.ids() == ["api-unreachable"]
    finally:
        site.server.start()


def test_another_cluster_at_the_same_address(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = ApiServer(tmp_path_factory.mktemp("other"))  # it is never started; its authority is all that is wanted
    site.join(other)
    assert site.ids() == ["api-other-cluster"]
    stranger = "".join(other.user(f"system:node:{NAME}", "system:nodes"))
    data = {"client-certificate-data": made.coded(stranger), "client-key-data": made.coded(stranger)}
    known = {"server": site.server.server, "certificate-authority-data": made.coded(site.server.ca_pem)}
    site.node.write(CONF, made.kubeconfig(data, **known))
    assert site.ids() == ["node-refused"]


def test_the_configuration_comes_from_the_cluster(site: Site) -> None:
    site.node.write("var/lib/kubelet/instance-config.yaml", "containerRuntimeEndpoint: unix:///run/own.sock\n")
    (site.root / CONFIG_FILE).unlink()
    left = call(kubelet_mend.main, state_dir=str(site.root / "state"))["left"]
    assert "is not there, and the cluster does not give it" in left[0]
    upload_config(site.admin)
    assert site.ids() == ["kubelet-config"]
    told = call(kubelet_mend.main, True, state_dir=str(site.root / "state"))
    assert [one["what"] for one in told["mended"]] == ["config"] and not (site.root / CONFIG_FILE).exists()
    done = call(kubelet_mend.main, state_dir=str(site.root / "state"))
    assert (done["changed"], done["left"]) == (True, [])
    written = yaml.safe_load((site.root / CONFIG_FILE).read_text())
    assert written == yaml.safe_load(CONFIG) | {"containerRuntimeEndpoint": "unix:///run/own.sock"}
    assert not call(kubelet_mend.main, state_dir=str(site.root / "state"))["changed"]


def test_a_lost_kubeconfig_is_one_that_the_api_takes(site: Site) -> None:
    place = site.root / CURRENT
    shutil.rmtree(place.parent)
    site.node.write("var/lib/kubelet/pki/kubelet-client-1.pem", site.pem)
    site.node.link("kubelet-client-1.pem")
    (site.root / CONF).unlink()
    assert site.ids() == ["kubelet-kubeconfig"]
    call(kubelet_mend.main, state_dir=str(site.root / "state"), server=site.server.server)
    text = (site.root / CONF).read_text()
    assert f"/{CURRENT}" in text
    site.node.write(CONF, text.replace(f"/{CURRENT}", str(place)))  # the tree is not at /
    with KubeClient(find_access({"kubeconfig": str(site.root / CONF)})) as kubelet:
        assert kubelet.get(NODE)["metadata"]["name"] == NAME


EMPTY_CHECKPOINT = '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'


def upload_config(admin: KubeClient) -> None:
    """As `kubeadm init phase upload-config kubelet` does it."""
    metadata = {"name": "kubelet-config", "namespace": "kube-system"}
    admin.post(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"kubelet": CONFIG}})
    name = {"name": "kubeadm:kubelet-config", "namespace": "kube-system"}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kubelet-config"], "verbs": ["get"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name["name"]}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    version = "rbac.authorization.k8s.io/v1"
    admin.post(f"{RBAC}/roles", {"apiVersion": version, "kind": "Role", "metadata": name, "rules": [rule]})
    binding = {"apiVersion": version, "kind": "RoleBinding", "metadata": name, "roleRef": reference}
    admin.post(f"{RBAC}/rolebindings", {**binding, "subjects": [subject]})
