# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How Ansible reaches the nodes of a cluster.

Every cluster has the same addresses, so nothing may be shared between clusters that is named by address: ssh runs in
the cluster's network, and its lasting connections (ControlPersist) have their sockets in the cluster's folder and their
processes in its PID namespace, where they end with it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .command import program
from .world import GATEWAY, node_address


def inventory(cluster: Cluster) -> dict[str, Any]:
    """Hosts and how to reach them; JSON, which is YAML too."""
    hosts = {
        machine.name: {
            "ansible_host": node_address(machine.index),
            "ansible_ssh_private_key_file": str(cluster.image(machine.name).ssh_key),
        }
        for machine in cluster.machines()
    }
    common = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ServerAliveInterval=10 -F none"
    reach = {
        "ansible_user": "root",
        "ansible_ssh_executable": str(_ssh(cluster)),
        "ansible_ssh_transfer_method": "piped",
        "ansible_ssh_common_args": f"{common} -o ControlPath=socket-%h",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    control_plane = {
        "ansible_connection": "local",
        "ansible_host": GATEWAY,
        "ansible_python_interpreter": str(_python(cluster)),
        "test_kubeconfig": str(cluster.control_plane().admin),
    }
    return {
        "all": {
            "children": {
                "kube_control_plane": {"hosts": {"control-plane": control_plane}},
                "kube_node": {"hosts": hosts, "vars": reach},
            },
            "vars": {"colocation_admin_kubeconfig": str(cluster.control_plane().admin)},
        }
    }


def _python(cluster: Cluster) -> Path:
    """A program that is Python in the cluster's network, where the API server's address is; a module is its stdin."""
    enter = [program("nsenter"), f"--net=/proc/{cluster.world.pid}/ns/net", sys.executable]
    return _script(cluster.folder / "python", f'exec {shlex.join(enter)} "$@"')


def _ssh(cluster: Cluster) -> Path:
    """A program that is ssh in the cluster's network, PID namespace and folder: a socket's path must be short."""
    pid = cluster.world.pid
    enter = [program("nsenter"), f"--net=/proc/{pid}/ns/net", f"--pid=/proc/{pid}/ns/pid", program("ssh")]
    return _script(cluster.folder / "ssh", f'cd {shlex.quote(str(cluster.folder))} && exec {shlex.join(enter)} "$@"')


def _script(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path
