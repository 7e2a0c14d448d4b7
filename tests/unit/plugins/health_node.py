# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a healthy node for node_health: that of preflight, with the kubelet's files, a runtime and a Node."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import Condition, CriAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import HealthFacts, NodeObject
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import Finding
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_judge import Want, judge
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_parts import Limits, Outside, look
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import SERVER, PreflightNode

NOW = 1_800_000_000.0
DAY = 86400.0
NAME = "worker1"
CURRENT = "var/lib/kubelet/pki/kubelet-client-current.pem"
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
kind: KubeletConfiguration
"""
READY = (Condition("RuntimeReady", "True"), Condition("NetworkReady", "True"))


def client_certificate(begins: float = NOW - 10 * DAY, ends: float = NOW + 300 * DAY, name: str = NAME) -> str:
    """A kubelet's certificate with its key, as it keeps them."""
    return made.certificate(f"system:node:{name}", begins, ends) + made.key()


class HealthNode(PreflightNode):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.now = NOW
        self.api = ApiAnswer(SERVER, 401, "", "verified", "", NOW)
        self.runtime = CriAnswer("", "", READY, True)
        self.endpoint = CriAnswer("", "", READY, True)
        self.node = NodeObject(NAME, 200, "", Readiness(True, ""))
        self.page = (0, "connection refused")
        self.asked_node: list[tuple[str, float, tuple[str, ...] | None]] = []
        self.write("proc/loadavg", "0.00 0.01 0.05 1/345 6789\n")
        self.write("proc/sys/kernel/pid_max", "4194304\n")
        self.write("proc/sys/kernel/threads-max", "15000\n")
        self.write("etc/cni/net.d/10-net.conflist", '{"cniVersion": "1.0.0", "name": "n", "plugins": []}')
        self.write("etc/kubernetes/pki/ca.crt", made.AUTHORITY)
        self.write("var/lib/kubelet/config.yaml", CONFIG)
        self.write("var/lib/kubelet/pki/kubelet-client-2026.pem", client_certificate())
        self.link("kubelet-client-2026.pem")
        self.proves()
        self.answers["/usr/bin/python3 -V"] = (0, "Python 3.13.5\n", "")
        self.write("var/lib/containerd/.keep", "")

    def proves(self, **user: object) -> None:
        """Another proof of who the node is, in its kubelet's kubeconfig."""
        named = {"client-certificate": f"/{CURRENT}", "client-key": f"/{CURRENT}"}
        self.write("etc/kubernetes/kubelet.conf", made.kubeconfig(user or named, server=SERVER))

    def link(self, target: str) -> None:
        path = self.root / CURRENT
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def unit(self, name: str, **properties: str) -> None:
        """Set properties of a unit as `systemctl show` names them."""
        self.units.setdefault(name, {"LoadState": "loaded"}).update(properties)

    def crash(self, name: str, journal: str, sub: str = "auto-restart", up_since: int = 0) -> None:
        active = "activating" if sub == "auto-restart" else "active"
        self.unit(name, ActiveState=active, SubState=sub, NRestarts="7", Result="exit-code")
        self.says(name, journal)
        shown = f"ActiveState={active}\nActiveEnterTimestampMonotonic={up_since}\n"
        self.answers[f"systemctl show --property=ActiveState,ActiveEnterTimestampMonotonic {name}"] = (0, shown, "")

    def says(self, name: str, journal: str) -> None:
        self.answers[f"journalctl -u {name} -n 120 -b --no-pager -o cat"] = (0, journal, "")

    def agent(self, name: str, made_for: str, active: str = "active") -> None:
        """One of our agents with a release."""
        release = "0.1.0-0123456789ab"
        home = self.root / "opt/colocation"
        record = (
            f'{{"id": "{release}", "version": "0.1.0", "python": "{made_for}", "architecture": "x86_64", '
            '"tree_sha256": "0", "agents": {}, "files": 1, "bytes": 1}'
        )
        self.write(f"opt/colocation/releases/{release}/RELEASE.json", record)
        if not (home / "current").is_symlink():
            (home / "current").symlink_to(f"releases/{release}")
        self.write(
            f"etc/systemd/system/{name}",
            "[Service]\nWorkingDirectory=/opt/colocation/current\n"
            "ExecStart=/usr/bin/python3 -Es -m colocation.start device_plugin --config /etc/x.yaml\n",
        )
        self.unit(name, ActiveState=active, SubState="running", UnitFileState="enabled")

    def looked(self) -> HealthFacts:
        return look(str(self.root), self.outside(), Limits(10, 1), self.containerd_config)

    def outside(self) -> Outside:
        return Outside(self.run, self.ask, self.ask_runtime, self.ask_node, lambda: self.now, lambda _url: self.page)

    def ask_runtime(self, socket: str, _timeout: float) -> CriAnswer:
        return self.runtime if "containerd" in socket else self.endpoint

    def ask_node(
        self, _access: Access, name: str, since: float, _timeout: float, registered: tuple[str, ...] | None
    ) -> NodeObject:
        self.asked_node.append((name, since, registered))
        return self.node

    def findings(self, want: Want | None = None) -> list[Finding]:
        return judge(self.looked(), want or Want())

    def ids(self) -> list[str]:
        return [finding.id for finding in self.findings()]
