# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a container runtime: its RuntimeService over real gRPC, and a folder of cgroups that follow its cpusets.

It runs nothing. It remembers sandboxes and containers, lists them, and applies an update as containerd does: fields
that are set replace what was there.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from colocation.cri_proxy.protocol import MESSAGES, RUNTIME

BURSTABLE = "kubepods.slice/kubepods-burstable.slice"
RUNNING, EXITED = 1, 2


class RuntimeDouble:
    """Serves at a socket; `stop` and `start` are a restart that keeps what runs."""

    def __init__(self, socket: Path, cgroups: Path, all_cpus: str, all_mems: str = "0-3") -> None:
        self.socket = socket
        self.cgroups = cgroups
        self.all_cpus = all_cpus
        self.all_mems = all_mems
        self.sandboxes: dict[str, Any] = {}
        self.containers: dict[str, Any] = {}
        self.states: dict[str, int] = {}
        self.updates: list[tuple[str, str]] = []
        self.tells_resources = True
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        names = [name[1:] for name in vars(type(self)) if name.startswith("_") and name[1:2].isupper()]
        methods: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(self._handler(name)) for name in names}
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(RUNTIME, methods),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait(5)
            self._server = None

    def effective(self, container: str) -> str:
        return (self._cgroup(container) / "cpuset.cpus.effective").read_text().strip()

    def mems(self, container: str) -> str:
        return (self._cgroup(container) / "cpuset.mems.effective").read_text().strip()

    def drop_cpuset(self, container: str) -> None:
        """As systemd does with what the kubelet did not ask for."""
        (self._cgroup(container) / "cpuset.cpus.effective").write_text(self.all_cpus)

    def drop_mems(self, container: str) -> None:
        """The same with the nodes of its memory."""
        (self._cgroup(container) / "cpuset.mems.effective").write_text(self.all_mems)

    def end(self, container: str) -> None:
        """It exits by itself."""
        self.states[container] = EXITED
        shutil.rmtree(self._cgroup(container))

    def alive(self) -> set[str]:
        return {key for key, state in self.states.items() if state == RUNNING}

    def _handler(self, name: str) -> Any:
        method = getattr(self, f"_{name}")

        def handle(content: bytes, context: grpc.ServicerContext) -> bytes:
            kind = MESSAGES.get(f"{name}Request")
            with self._lock:
                try:
                    fields = method(kind.FromString(content) if kind else None)
                except KeyError as problem:
                    context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {problem}")
            answer = MESSAGES.get(f"{name}Response")
            made: bytes = answer(**fields).SerializeToString() if answer else b""
            return made

        return handle

    def _cgroup(self, container: str) -> Path:
        pod = self.sandboxes[self.containers[container].pod_sandbox_id].metadata.uid
        return self.cgroups / BURSTABLE / f"kubepods-burstable-pod{pod}.slice" / f"cri-containerd-{container}.scope"

    def _Version(self, _request: Any) -> dict[str, Any]:
        return {"version": "0.1.0", "runtime_name": "double", "runtime_version": "1", "runtime_api_version": "v1"}

    def _RunPodSandbox(self, request: Any) -> dict[str, Any]:
        key = uuid.uuid4().hex * 2
        self.sandboxes[key] = request.config
        return {"pod_sandbox_id": key}

    def _CreateContainer(self, request: Any) -> dict[str, Any]:
        key = uuid.uuid4().hex * 2
        self.containers[key] = request
        self.states[key] = RUNNING
        self._cgroup(key).mkdir(parents=True)
        resources = request.config.linux.resources
        (self._cgroup(key) / "cpuset.cpus.effective").write_text(resources.cpuset_cpus or self.all_cpus)
        (self._cgroup(key) / "cpuset.mems.effective").write_text(resources.cpuset_mems or self.all_mems)
        return {"container_id": key}

    def _UpdateContainerResources(self, request: Any) -> dict[str, Any]:
        if self.states[request.container_id] != RUNNING:
            raise KeyError(request.container_id)
        self.containers[request.container_id].config.linux.resources.MergeFrom(request.linux)
        self.updates.append((request.container_id, request.linux.cpuset_cpus))
        if request.linux.cpuset_cpus:
            (self._cgroup(request.container_id) / "cpuset.cpus.effective").write_text(request.linux.cpuset_cpus)
        if request.linux.cpuset_mems:
            (self._cgroup(request.container_id) / "cpuset.mems.effective").write_text(request.linux.cpuset_mems)
        return {}

    def _StopContainer(self, request: Any) -> dict[str, Any]:
        if self.states[request.container_id] == RUNNING:
            self.end(request.container_id)
        return {}

    def _ListPodSandbox(self, _request: Any) -> dict[str, Any]:
        return {
            "items": [
                {"id": key, "metadata": config.metadata, "annotations": config.annotations}
                for key, config in self.sandboxes.items()
            ]
        }

    def _ListContainers(self, _request: Any) -> dict[str, Any]:
        return {
            "containers": [
                {
                    "id": key,
                    "pod_sandbox_id": request.pod_sandbox_id,
                    "metadata": request.config.metadata,
                    "state": self.states[key],
                    "annotations": request.config.annotations,
                }
                for key, request in self.containers.items()
            ]
        }

    def _ContainerStatus(self, request: Any) -> dict[str, Any]:
        found = self.containers[request.container_id]
        told = {"resources": {"linux": found.config.linux.resources}} if self.tells_resources else {}
        return {"status": {"id": request.container_id, **told}}


class KubeletCalls:
    """A kubelet's calls at a socket."""

    def __init__(self, socket: Path) -> None:
        options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
        self._channel = grpc.insecure_channel(f"unix:{socket}", options)

    def close(self) -> None:
        self._channel.close()

    def call(self, name: str, **fields: Any) -> Any:
        asked: Any = self._channel.unary_unary(f"/{RUNTIME}/{name}")
        content = asked(MESSAGES[f"{name}Request"](**fields).SerializeToString(), timeout=60, wait_for_ready=True)
        answer = MESSAGES.get(f"{name}Response")
        return answer.FromString(content) if answer else None

    def pod(self, name: str, namespace: str = "default", annotations: dict[str, str] | None = None) -> Any:
        """Run a sandbox; its configuration and id."""
        uid = f"uid-{name}"
        config = MESSAGES["PodSandboxConfig"](
            metadata={"name": name, "uid": uid, "namespace": namespace},
            annotations=annotations or {},
            linux={"cgroup_parent": f"/{BURSTABLE}/kubepods-burstable-pod{uid}.slice"},
        )
        return config, self.call("RunPodSandbox", config=config).pod_sandbox_id

    def run(self, name: str, milli: int = 0, environment: dict[str, str] | None = None, **of_pod: Any) -> str:
        """Run a pod with one container; its id."""
        config, sandbox = self.pod(name, **of_pod)
        container = MESSAGES["ContainerConfig"](
            metadata={"name": "main", "attempt": 0},
            envs=[{"key": key, "value": value.encode()} for key, value in (environment or {}).items()],
            linux={"resources": {"cpu_shares": max(2, milli * 1024 // 1000), "cpu_period": 100_000}},
        )
        made = self.call("CreateContainer", pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        key: str = made.container_id
        return key
