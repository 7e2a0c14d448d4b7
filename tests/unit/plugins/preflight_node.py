# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a healthy node for preflight: a file tree, and the commands that are asked on it."""

from __future__ import annotations

import base64
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils import _node_facts
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import CONFIG

SERVER = "https://10.0.0.1:6443"
CA = "-----BEGIN CERTIFICATE-----\nnot really one\n-----END CERTIFICATE-----\n"
HEALTHY_UNIT = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"}
DUMP_COMMAND = f"/usr/bin/containerd --config {CONFIG} config dump"
DUMP = """\
disabled_plugins = []
version = 2

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
"""


class PreflightNode:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {"kubelet.service": dict(HEALTHY_UNIT), "containerd.service": dict(HEALTHY_UNIT)}
        self.answers: dict[str, tuple[int, str, str]] = {
            "timedatectl show": (0, "Timezone=UTC\nNTP=yes\nNTPSynchronized=yes\n", ""),
            "/usr/bin/kubelet --version": (0, "Kubernetes v1.36.3\n", ""),
            "/usr/bin/containerd --version": (0, "containerd github.com/containerd/containerd 1.7.24~ds1 abc\n", ""),
            DUMP_COMMAND: (0, DUMP, ""),
        }
        self.api = ApiAnswer(SERVER, 401, "", "verified", "")
        self.containerd_config = CONFIG
        self.asked_with: list[tuple[str, str]] = []
        self._machine()
        self._kubelet()
        for binary in ("kubelet", "containerd"):
            self.write(f"usr/bin/{binary}", "").chmod(0o755)
            self.write(f"usr/lib/systemd/system/{binary}.service", "[Service]\n")

    def _machine(self) -> None:
        self.write("etc/os-release", 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
        self.write("etc/machine-id", "0123456789abcdef\n")
        self.write("proc/1/comm", "systemd\n")
        self.write(
            "proc/self/mountinfo",
            "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
            "24 22 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
        )
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
        self.write("etc/fstab", "UUID=1-2 / ext4 errors=remount-ro 0 1\n")
        self.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
        self.write("proc/cmdline", "root=/dev/vda1 ro\n")
        self.write("proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable: 3000000 kB\n")
        self.write("usr/lib/systemd/system/swap.target", "[Unit]\n")

    def _kubelet(self) -> None:
        self.kubelet_process(
            "/usr/bin/kubelet",
            "0::/system.slice/kubelet.service\n",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            "--config=/var/lib/kubelet/config.yaml",
        )
        pem = "/var/lib/kubelet/pki/current.pem"
        self.kubeconfig(f"client-certificate: {pem}\n    client-key: {pem}")
        self.write(
            "var/lib/kubelet/config.yaml",
            "apiVersion: kubelet.config.k8s.io/v1beta1\nauthentication:\n  anonymous:\n    enabled: false\n"
            "cgroupDriver: systemd\ncontainerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
        )

    def kubeconfig(self, user: str, path: str = "etc/kubernetes/kubelet.conf") -> None:
        """As kubeadm writes it; `user` is what proves who the node is."""
        ca = base64.b64encode(CA.encode()).decode()
        self.write(
            path,
            "apiVersion: v1\nclusters:\n- cluster:\n"
            f"    certificate-authority-data: {ca}\n    server: {SERVER}\n  name: default-cluster\n"
            "contexts:\n- context:\n    cluster: default-cluster\n    user: default-auth\n  name: default-context\n"
            f"current-context: default-context\nusers:\n- name: default-auth\n  user:\n    {user}\n",
        )

    def kubelet_process(self, executable: str, cgroup: str, *arguments: str) -> None:
        self.write("proc/812/comm", "kubelet\n")
        self.write("proc/812/cgroup", cgroup)
        self.write("proc/812/cmdline", "\0".join([executable, *arguments]) + "\0")
        link = self.root / "proc/812/exe"
        link.unlink(missing_ok=True)
        link.symlink_to(executable)

    def no_kubelet_process(self) -> None:
        (self.root / "proc/812/comm").unlink()

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, command: list[str]) -> tuple[int, str, str]:
        if command[:2] == ["systemctl", "show"] and command[-1] in self.units:
            return 0, "".join(f"{key}={value}\n" for key, value in self.units[command[-1]].items()), ""
        return self.answers.get(" ".join(command), (127, "", f"{command[0]}: No such file or directory"))

    def ask(self, server: str, ca_pem: str, _timeout: float) -> ApiAnswer:
        self.asked_with.append((server, ca_pem))
        return self.api

    def facts(self, disks: tuple[str, ...] = ("/var",)) -> _node_facts.NodeFacts:
        worker = _node_facts.read_worker(str(self.root), self.run, disks, 1.0, self.containerd_config, ask=self.ask)
        return _node_facts.read_node(str(self.root), self.run, "python", worker, ["/var/lib/colocation"])
