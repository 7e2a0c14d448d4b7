# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The module kubelet_mend: what it writes, what it keeps, and that it is done once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import read_files
from ansible_collections.colocation.kubernetes.plugins.modules import kubelet_mend
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import (
    CONFIG,
    CURRENT,
    DAY,
    NOW,
    HealthNode,
    client_certificate,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

CONF, CA, CONFIG_FILE = "etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml"
SERVER = "https://10.9.9.9:6443"


def told(answer: str | Exception) -> str:
    """What the cluster says, or how it fails."""
    if isinstance(answer, Exception):
        raise answer
    return answer


class Site:
    """The node, the cluster's answer, and the module's call."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = HealthNode(root)
        self.root = root
        self.asked: list[Access] = []
        self.cluster: str | Exception = CONFIG
        monkeypatch.setattr(kubelet_mend, "ROOT", str(root))
        monkeypatch.setattr(kubelet_mend, "fetch_config", self.fetch)
        monkeypatch.setattr(kubelet_mend, "run_for", lambda command, seconds: self.node.run(command))
        monkeypatch.setattr(kubelet_mend.time, "time", lambda: NOW)

    def fetch(self, access: Access, _timeout: float) -> str:
        self.asked.append(access)
        return told(self.cluster)

    def run(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        return call(kubelet_mend.main, check_mode, state_dir=str(self.root / "state"), **params)

    def kept(self) -> list[Path]:
        return sorted((self.root / "state/kept/kubelet").glob("*")) if (self.root / "state").exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_a_healthy_node_is_not_touched(site: Site) -> None:
    before = {path: path.stat().st_mtime_ns for path in site.root.rglob("*") if path.is_file()}
    answer = site.run(server=SERVER)
    assert (answer["changed"], answer["mended"], answer["left"], site.asked) == (False, [], [], [])
    assert {path: path.stat().st_mtime_ns for path in site.root.rglob("*") if path.is_file()} == before


def test_a_lost_kubeconfig(site: Site) -> None:
    (site.root / CONF).unlink()
    told = site.run(check_mode=True, server=SERVER)
    assert not (site.root / CONF).exists()
    done = site.run(server=SERVER)
    for answer in (told, done):
        answer.pop("invocation", None)  # the newest core leaves it out
    assert told == done
    assert [one["what"] for one in done["mended"]] == ["kubeconfig"]
    assert done["diff"] == [{"header": f"/{CONF}", "prepared": f"/{CONF} is not there; it is written anew\n"}]
    assert (site.root / CONF).stat().st_mode & 0o777 == 0o600
    files = read_files(str(site.root), NOW)
    assert files.access is not None and files.access.server == SERVER
    assert not site.run(server=SERVER)["changed"]
    assert site.node.ids() == []


def test_all_is_lost_but_the_certificate(site: Site) -> None:
    """And it is found behind a broken link; the cluster is asked with it, before the link is mended."""
    for name in (CONF, CA, CONFIG_FILE):
        (site.root / name).write_text("half a fi")
    neighbour = made.kubeconfig({"token": "x"}, server=SERVER)
    site.node.write("var/lib/kube-proxy/kubeconfig", neighbour)
    site.node.link("nowhere")
    site.node.write(
        "var/lib/kubelet/instance-config.yaml", "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///mine\n"
    )
    answer = site.run()
    assert [one["what"] for one in answer["mended"]] == ["certificate-link", "kubeconfig", "ca-file", "config"]
    assert answer["left"] == []
    assert [Path(one["kept"]).name.rpartition(".")[0] for one in answer["mended"][1:]] == [
        "kubelet.conf", "ca.crt", "config.yaml",
    ]  # fmt: skip
    assert all(path.read_text() == "half a fi" and path.stat().st_mode & 0o777 == 0o600 for path in site.kept())
    assert site.asked[0].certificate.file == "/var/lib/kubelet/pki/kubelet-client-2026.pem"
    assert os.readlink(site.root / CURRENT) == "/var/lib/kubelet/pki/kubelet-client-2026.pem"
    assert "containerRuntimeEndpoint: unix:///mine" in (site.root / CONFIG_FILE).read_text()


def test_what_the_cluster_does_not_give_is_left(site: Site) -> None:
    (site.root / CONFIG_FILE).unlink()
    site.cluster = ApiError("kubelet-config is not found", 404)
    answer = site.run()
    assert not answer["changed"]
    assert answer["left"] == [
        "/var/lib/kubelet/config.yaml is not there, and the cluster does not give it: kubelet-config is not found"
    ]


def test_a_node_without_identity(site: Site) -> None:
    (site.root / CONF).unlink()
    (site.root / CONFIG_FILE).unlink()
    site.node.write("var/lib/kubelet/pki/kubelet-client-2026.pem", client_certificate(NOW - 9 * DAY, NOW - DAY))
    answer = site.run(server=SERVER)
    assert (answer["changed"], site.asked, len(answer["left"])) == (False, [], 3)
    assert "without a kubeconfig the cluster can't be asked" in answer["left"][2]


def test_a_cluster_is_not_asked_for_what_kubeadm_did_not_put_there(site: Site) -> None:
    site.node.proves(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "/usr/bin/own"})
    (site.root / CONFIG_FILE).unlink()
    answer = site.run()
    assert (answer["changed"], site.asked) == (False, [])
    assert "config.yaml is not there, and kubeadm did not join this node" in answer["left"][0]


def test_a_configuration_that_a_running_kubelet_took_is_good(site: Site) -> None:
    site.node.write(CONFIG_FILE, CONFIG + "odd: [a,\n b]\n")
    assert not site.run()["changed"]
    site.node.unit("kubelet.service", ActiveState="failed")
    assert [one["what"] for one in site.run()["mended"]] == ["config"]


def test_a_mode_that_somebody_chose_stays(site: Site) -> None:
    site.node.write(CONFIG_FILE, "")
    (site.root / CONFIG_FILE).chmod(0o600)
    site.run()
    assert (site.root / CONFIG_FILE).stat().st_mode & 0o777 == 0o600
    (site.root / CONFIG_FILE).unlink()
    site.run()
    assert (site.root / CONFIG_FILE).stat().st_mode & 0o777 == 0o644


def test_an_address_that_is_none(site: Site) -> None:
    assert "must be an https:// address" in site.run(server="10.0.0.1")["msg"]


def test_a_disk_that_takes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.root / CONF).unlink()

    def full(*_arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kubelet_mend, "put_file", full)
    assert site.run(server=SERVER)["msg"] == (
        "/etc/kubernetes/kubelet.conf can't be written: No space left on device; written were: nothing"
    )
