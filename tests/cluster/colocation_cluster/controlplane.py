# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""etcd and the control plane as processes of this machine, in the cluster's network.

kubeadm makes the certificates and kubeconfigs and uploads what a joining node reads, as it would on a real
control plane; only the processes are started by us instead of by a kubelet.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .binaries import ETCD, binary, kubernetes
from .say import ClusterError, phase, tail, wait_until
from .world import GATEWAY, World

PROCESSES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
API_PORT = 6443
KUBEADM_CONFIG = """
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v{version}
clusterName: test
certificatesDir: {pki}
controlPlaneEndpoint: {address}:{port}
apiServer: {{certSANs: [{address}, 127.0.0.1, control-plane]}}
networking: {{serviceSubnet: 10.96.0.0/16, podSubnet: 10.244.0.0/16}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: {port}}}
nodeRegistration: {{name: control-plane, criSocket: "unix:///run/containerd/containerd.sock"}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failSwapOn: true
nodeStatusUpdateFrequency: 5s
"""


class ControlPlane:
    """One control plane: its files under `folder`, its processes in `world`."""

    def __init__(self, world: World, folder: Path, minor: str) -> None:
        self.world = world
        self.folder = folder
        self.minor = minor
        self.pki = folder / "pki"
        self.admin = folder / "admin.conf"

    def program(self, name: str) -> Path:
        return binary(ETCD, "etcd") if name == "etcd" else binary(kubernetes(self.minor), name)

    def prepare(self) -> None:
        """Certificates and kubeconfigs, by kubeadm."""
        self.folder.mkdir(parents=True)
        config = KUBEADM_CONFIG.format(
            version=kubernetes(self.minor).version, pki=self.pki, address=GATEWAY, port=API_PORT
        )
        (self.folder / "kubeadm.yaml").write_text(config)
        self.kubeadm("init", "phase", "certs", "all")
        self.kubeadm("init", "phase", "kubeconfig", "all", "--kubeconfig-dir", str(self.folder))

    def kubeadm(self, *words: str) -> str:
        argv: list[str | Path] = [self.program("kubeadm"), *words, "--config", self.folder / "kubeadm.yaml"]
        return self.world.run(argv, f"kubeadm {' '.join(words[:4])}")

    def kubectl(self, *words: str, stdin: str | None = None, config: Path | None = None, limit: float = 60) -> str:
        env = {**os.environ, "KUBECONFIG": str(config or self.admin)}
        return self.world.run(
            [self.program("kubectl"), *words], f"kubectl {' '.join(words)}", env=env, stdin=stdin, limit=limit
        )

    def start(self) -> None:
        """Start all processes and wait until the API answers."""
        with phase("control plane"):
            for name, arguments in self._arguments().items():
                self.world.start(name, [self.program(name), *arguments])
            wait_until("the API server", self._ready, 120, self._explain)

    def stop(self) -> None:
        """End the processes, etcd last and gently, so that its data are whole; the others keep nothing of their own."""
        for name in reversed(PROCESSES):
            self.world.stop(name, limit=30 if name == "etcd" else 0)

    def publish(self) -> None:
        """Upload what kubeadm join reads, and let the administrator in."""
        superadmin = self.folder / "super-admin.conf"
        self.kubectl(
            "create", "clusterrolebinding", "kubeadm:cluster-admins",
            "--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins", config=superadmin,
        )  # fmt: skip
        kubeconfig = ("--kubeconfig", str(self.admin))
        for phases in (("upload-config", "all"), ("bootstrap-token",)):
            self.kubeadm("init", "phase", *phases, *kubeconfig)
        # kubeadm writes where our certificates lie; a node has its own place for them.
        uploaded = self.kubectl("-n", "kube-system", "get", "configmap", "kubelet-config", "-o", "yaml")
        self.kubectl("replace", "-f", "-", stdin=uploaded.replace(str(self.pki), "/etc/kubernetes/pki"))
        proxy = self.kubeadm("kubeconfig", "user", "--client-name", "system:kube-proxy")
        (self.folder / "kube-proxy.conf").write_text(proxy)
        self.kubectl(
            "create", "clusterrolebinding", "kubeadm:node-proxier",
            "--clusterrole=system:node-proxier", "--user=system:kube-proxy",
        )  # fmt: skip

    def join_command(self) -> str:
        """A fresh `kubeadm join …` line; its token lives for an hour."""
        words = ["token", "create", "--ttl", "1h", "--print-join-command", "--kubeconfig", str(self.admin)]
        return self.world.run([self.program("kubeadm"), *words], "kubeadm token create").strip()

    def save(self, target: Path) -> None:
        """Keep the files of a stopped control plane."""
        shutil.copytree(self.folder, target)

    def _ready(self) -> bool:
        for name in PROCESSES:
            if not self.world.runs(name):
                raise ClusterError(f"{name} ended\n{tail(self.world.folder / f'{name}.log')}")
        try:
            self.kubectl("get", "--raw", "/readyz", limit=10)
        except ClusterError:
            return False
        return True

    def _explain(self) -> str:
        return "\n".join(f"{name}: {tail(self.world.folder / f'{name}.log', 8)}" for name in PROCESSES)

    def _arguments(self) -> dict[str, list[str]]:
        """The command lines, as kubeadm's static pods have them."""
        pki = self.pki
        etcd_tls = [
            f"--etcd-cafile={pki}/etcd/ca.crt",
            f"--etcd-certfile={pki}/apiserver-etcd-client.crt",
            f"--etcd-keyfile={pki}/apiserver-etcd-client.key",
        ]
        return {
            "etcd": [
                f"--data-dir={self.folder}/etcd", "--name=test", "--listen-client-urls=https://127.0.0.1:2379",
                "--advertise-client-urls=https://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380",
                "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=test=http://127.0.0.1:2380",
                f"--cert-file={pki}/etcd/server.crt", f"--key-file={pki}/etcd/server.key", "--client-cert-auth",
                f"--trusted-ca-file={pki}/etcd/ca.crt", "--unsafe-no-fsync", "--log-level=warn",
            ],
            "kube-apiserver": [
                f"--advertise-address={GATEWAY}", "--allow-privileged", "--authorization-mode=Node,RBAC",
                f"--client-ca-file={pki}/ca.crt", "--enable-admission-plugins=NodeRestriction",
                "--enable-bootstrap-token-auth", "--etcd-servers=https://127.0.0.1:2379", *etcd_tls,
                f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
                f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
                "--kubelet-preferred-address-types=InternalIP", f"--secure-port={API_PORT}",
                "--requestheader-allowed-names=front-proxy-client",
                f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-username-headers=X-Remote-User",
                f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
                f"--proxy-client-key-file={pki}/front-proxy-client.key",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
                "--service-cluster-ip-range=10.96.0.0/16", f"--tls-cert-file={pki}/apiserver.crt",
                f"--tls-private-key-file={pki}/apiserver.key",
            ],
            "kube-controller-manager": [
                f"--kubeconfig={self.folder}/controller-manager.conf", "--use-service-account-credentials",
                f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
                f"--root-ca-file={pki}/ca.crt", f"--service-account-private-key-file={pki}/sa.key",
                "--controllers=*,bootstrap-signer-controller,token-cleaner-controller", "--bind-address=127.0.0.1",
                "--leader-elect=false",
            ],
            "kube-scheduler": [
                f"--kubeconfig={self.folder}/scheduler.conf", "--bind-address=127.0.0.1", "--leader-elect=false",
            ],
        }  # fmt: skip
