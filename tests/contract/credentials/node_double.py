# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A node as far as credentials go: a Node in the API, and a directory with its kubelet's kubeconfig and certificate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from ansible_collections.colocation.kubernetes.plugins.modules import (
    agent_account,
    agent_credentials,
    agent_credentials_info,
    agent_token,
    kubeconfig_read,
)
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


class NodeDouble:
    """One node; the modules are called as its play would call them."""

    def __init__(self, server: ApiServer, directory: Path, name: str) -> None:
        self.server = server
        self.name = name
        self.directory = directory
        self.state_dir = directory / "state"
        self.kubeconfig = self.state_dir / "credentials" / "kubeconfig"
        self.certificates = directory / "pki"
        self.certificates.mkdir(parents=True)
        self.current = self.certificates / "kubelet-client-current.pem"
        self.kubelet_conf = directory / "kubelet.conf"
        self._run_kubelet(directory / "root" / "proc" / "77")
        self.admin_conf = directory / "admin.conf"
        server.kubectl("create", "-f", "-", stdin=json.dumps(self.document()))
        self.rotate()
        self.write(self.kubelet_conf, {"client-certificate": str(self.current), "client-key": str(self.current)})
        self.admin_conf.write_text(json.dumps(server.kubeconfig()))

    def _run_kubelet(self, process: Path) -> None:
        """What /proc would say of a kubelet with unusual paths."""
        process.mkdir(parents=True)
        flags = [f"--kubeconfig={self.kubelet_conf}", "--cert-dir", str(self.certificates)]
        (process / "cmdline").write_text("\0".join(["/usr/bin/kubelet", *flags, ""]))
        (process / "comm").write_text("kubelet\n")

    def document(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}}

    def rotate(self) -> str:
        """Another certificate behind the link, as the kubelet puts it there; returns where it is."""
        number = len(list(self.certificates.iterdir()))
        pem = self.certificates / f"kubelet-client-{number}.pem"
        pem.write_text("".join(self.server.user(f"system:node:{self.name}", "system:nodes")))
        pem.chmod(0o600)
        link = self.certificates / "fresh"
        link.symlink_to(pem)
        os.replace(link, self.current)
        return str(pem)

    def write(self, path: Path, user: dict[str, Any]) -> None:
        """A kubeconfig of this cluster with that user."""
        config = self.server.kubeconfig()
        config["users"][0]["user"] = user
        path.write_text(json.dumps(config))

    def give(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        """agent_credentials."""
        return self._call(agent_credentials, check_mode, **params)

    def info(self, **params: Any) -> dict[str, Any]:
        return self._call(agent_credentials_info, False, **params)

    def account(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        params = {"node": self.name, "kubeconfig": str(self.admin_conf), **params}
        return call(agent_account.main, check_mode, **params)

    def token(self, days: int = 90) -> str:
        made = call(agent_token.main, False, node=self.name, kubeconfig=str(self.admin_conf), days=days)
        return str(made["token"])

    def mint(self) -> dict[str, Any]:
        """All steps of the source minted."""
        self.account()
        return self.give(source="minted", token=self.token())

    def read(self, path: Path) -> str:
        return str(call(kubeconfig_read.main, path=str(path))["kubeconfig"])

    def _call(self, module: ModuleType, check_mode: bool, **params: Any) -> dict[str, Any]:
        with mock.patch.object(module, "ROOT", str(self.directory / "root")):
            return call(module.main, check_mode, state_dir=str(self.state_dir), **params)
