# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A pod whose containers are processes of this machine: its volumes are files, its paths and ports are translated.

Images and everything that isolates a container are what can't exist here. Commands, configuration, accounts, tokens and
probes are taken from the pod as the API server has it.
"""

from __future__ import annotations

import base64
import socket
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient, api_path
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import binary, kubernetes
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.scheduler.control_plane import Program
from ansible_collections.colocation.kubernetes.tests.ports import free_port

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class PodDouble:
    """Runs a pod until `stop`; `status` is what a kubelet would say."""

    def __init__(
        self, server: ApiServer, api: KubeClient, pod: Mapping[str, Any], place: Path, ports: list[int]
    ) -> None:
        self._server = server
        self._api = api
        self.pod = pod
        self._place = place
        self._restarts: dict[str, int] = {}
        self.ports = {port: free_port() for port in ports}
        self._commands = {one["name"]: self._prepared(one) for one in pod["spec"]["containers"]}
        self.running = {name: self._start(name) for name in self._commands}

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    def stop(self) -> None:
        for program in self.running.values():
            program.stop()

    def look(self) -> dict[str, Any]:
        """Start again what ended, if the pod wants that, and say how all is."""
        again = self.pod["spec"]["restartPolicy"] == "Always"
        states = [self._state(container, again) for container in self.pod["spec"]["containers"]]
        codes = [one["state"].get("terminated", {}).get("exitCode") for one in states]
        phase = "Running"
        if not again and None not in codes:
            phase = "Failed" if any(codes) else "Succeeded"
        ready = "True" if all(one["ready"] for one in states) else "False"
        conditions = [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")]
        return {"phase": phase, "conditions": conditions, "containerStatuses": states, "podIP": "127.0.0.1"}

    def _state(self, container: Mapping[str, Any], again: bool) -> dict[str, Any]:
        name = container["name"]
        code = self.running[name].process.poll()
        state: dict[str, Any] = {"running": {}}
        last: dict[str, Any] = {}
        if code is not None and again:
            last = {"terminated": {"exitCode": code}}
            self._restarts[name] = self._restarts.get(name, 0) + 1
            self.running[name] = self._start(name)
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
        elif code is not None:
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        ready = code is None and self._probe(container)
        return {
            "name": name, "image": container["image"], "imageID": "", "ready": ready, "started": ready,
            "restartCount": self._restarts.get(name, 0), "state": state, "lastState": last,
        }  # fmt: skip

    def _probe(self, container: Mapping[str, Any]) -> bool:
        probe = container.get("readinessProbe")
        if probe is None:
            return True
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        asked = probe.get("httpGet") or probe["tcpSocket"]
        port = self.ports[ports[asked["port"]]]
        try:
            if "tcpSocket" in probe:
                socket.create_connection(("127.0.0.1", port), 2).close()
                return True
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            scheme = asked.get("scheme", "HTTP").lower()
            url = f"{scheme}://127.0.0.1:{port}{asked['path']}"
            with urllib.request.urlopen(url, timeout=2, context=context if scheme == "https" else None) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _start(self, name: str) -> Program:
        return Program(self._commands[name], self._place / f"{name}.log", self._environment(name))

    def _environment(self, name: str) -> dict[str, str]:
        """What a container is told of its pod."""
        container = next(one for one in self.pod["spec"]["containers"] if one["name"] == name)
        fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container.get("env", [])}
        return {name: str(self.pod["metadata"][path.removeprefix("metadata.")]) for name, path in fields.items()}

    def _prepared(self, container: Mapping[str, Any]) -> list[str | Path]:
        """The container's files, and its command in their terms."""
        root = self._place / container["name"]
        moved: dict[str, str] = {}
        for mount in container["volumeMounts"]:
            volume = next(one for one in self.pod["spec"]["volumes"] if one["name"] == mount["name"])
            target = root / mount["mountPath"].lstrip("/")
            moved[mount["mountPath"]] = str(target)
            for name, content in self._files(volume):
                if mount.get("subPath", name) != name and name:
                    continue
                file = target if "subPath" in mount or not name else target / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        for file in root.rglob("*"):
            if file.is_file() and file.suffix != ".pyz":
                file.write_text(self._translated(file.read_text(), moved))
        program, *words = container["command"]
        known = {"kube-scheduler": binary(kubernetes(self._server.minor), "kube-scheduler"), "python3": sys.executable}
        return [known[program], *(self._translated(word, moved) for word in words)]

    def _translated(self, text: str, moved: Mapping[str, str]) -> str:
        for path in sorted(moved, key=len, reverse=True):
            text = text.replace(path, moved[path])
        for port, free in self.ports.items():
            text = text.replace(str(port), str(free))
        return text

    def _files(self, volume: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        namespace = self.pod["metadata"]["namespace"]
        if "secret" in volume:
            found = self._api.get(_path(namespace, "secrets", volume["secret"]["secretName"]))
            yield from ((name, base64.b64decode(content)) for name, content in found["data"].items())
        elif "configMap" in volume:
            found = self._api.get(_path(namespace, "configmaps", volume["configMap"]["name"]))
            yield from ((name, base64.b64decode(content)) for name, content in found["binaryData"].items())
        elif "hostPath" in volume:
            yield "", Path(volume["hostPath"]["path"]).read_bytes()
        else:
            yield from self._account(namespace).items()

    def _account(self, namespace: str) -> dict[str, bytes]:
        """What Kubernetes puts into a pod of its account: a token from the API server, and the authority."""
        path = _path(namespace, "serviceaccounts", self.pod["spec"]["serviceAccountName"]) + "/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = self._api.post(path, body)["status"]["token"]
        return {"token": token.encode(), "ca.crt": self._server.ca_pem.encode()}


def _path(namespace: str, plural: str, name: str) -> str:
    return api_path("api", "v1", "namespaces", namespace, plural, name)
