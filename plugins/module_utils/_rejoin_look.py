# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The host of a rejoining node as it is found, and the mark that an operation leaves there. It changes nothing."""

from __future__ import annotations

import base64
import glob
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import CredentialsError
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_place import Place, recorded_account
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_surroundings import look_around
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import ContainerRuntime, RuntimeSilent
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import FileState, put_file, read, remove
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import read_files
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    KUBECONFIG,
    Run,
    find_binary,
    find_process,
    parse_environment,
    parse_flags,
    parse_version,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import HostView, KeptFile
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_saved import CNI_DIRECTORY
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError

MANIFESTS = "/etc/kubernetes/manifests"
_CONTROL_PLANE = ("kube-apiserver.yaml", "etcd.yaml")
_LARGEST = 256 << 10  # bytes of one file that is kept
_JOIN_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
# kubeadm and the kubelet's unit set these themselves.
_KUBEADMS_FLAGS = ("hostname-override", "pod-infra-container-image", "config", "kubeconfig", "bootstrap-kubeconfig")


@dataclass(frozen=True, slots=True)
class Places:
    """What the user may say of a host."""

    node_name: str = ""
    proxy: str = ""  # the unit of a CRI proxy …
    proxy_socket: str = ""  # … and where it answers
    agents: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # patterns of further files
    state_dir: str = "/var/lib/colocation"


@dataclass(frozen=True, slots=True)
class Found:
    """The host, with what must not be shown in a log."""

    view: HostView
    files: tuple[KeptFile, ...] = field(repr=False)
    minted: dict[str, str] | None = None  # the account that was made for its agents


class Mark:
    """A file on the host: which operation has taken its old identity away, and the Node's name, which went with it.

    It is there from the moment that the kubelet is stopped, so that nobody starts it in between; but it names the
    operation that is `leaving` then, which counts for nothing here.
    """

    def __init__(self, state_dir: str) -> None:
        self._path = os.path.join(state_dir, "rejoin.json")

    def read(self) -> tuple[str, str]:
        """Operation and node; empty where there is none."""
        try:
            value = json.loads(read(self._path) or b"{}")
            return str(value.get("operation", "")), str(value.get("node", ""))
        except (ValueError, AttributeError):
            return "", ""

    def announce(self, operation: str, node: str) -> None:
        """Say that the host is being taken out; what a reset has said is not lost."""
        if not any(self.read()):
            self._write({"leaving": operation, "node": node})

    def write(self, operation: str, node: str) -> None:
        """Say that nothing of the old identity is left."""
        self._write({"operation": operation, "node": node})

    def _write(self, said: dict[str, str]) -> None:
        os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)
        state = FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600)
        put_file(self._path, (json.dumps(said) + "\n").encode(), state)

    def remove(self) -> None:
        """Away with it, and with the directory where nothing else is in it."""
        remove(self._path)
        try:
            os.rmdir(os.path.dirname(self._path))
        except OSError:
            pass


def look_at_host(root: str, run: Run, systemd: Systemd, runtime: ContainerRuntime, places: Places) -> Found:
    """All that counts, in one go."""
    mark, marked_node = Mark(places.state_dir).read()
    named = places.node_name or marked_node or None
    node = look_around(root, None, named).node
    problems = list(_problems(root, run, systemd, runtime))
    if not marked_node:  # else the proxy was stopped with the kubelet, and the join starts it
        problems += _problems_of_proxy(systemd, places)
    try:
        minted = recorded_account(Place(places.state_dir))
        files = kept_files(root, (*places.keep, f"{CNI_DIRECTORY}/*", f"{MANIFESTS}/*"))
    except (CredentialsError, ValueError) as problem:
        problems.append(str(problem))
        minted, files = None, ()
    units = [unit for unit in (places.proxy, *places.agents) if unit]
    view = HostView(
        node=node,
        reachable=True,
        machine_id=read_text(root, "/etc/machine-id").strip(),
        control_plane=any(os.path.exists(under(root, f"{MANIFESTS}/{name}")) for name in _CONTROL_PLANE),
        kubelet_running=find_process(root, "kubelet") is not None,
        kubelet_conf=os.path.exists(under(root, KUBECONFIG)),
        mark=mark,
        problems=tuple(problems),
        agents=tuple(unit for unit in units if _wanted(systemd, unit)),
        kubelet_flags=join_flags(root),
    )
    return Found(view, files, minted)


def kept_files(root: str, patterns: Iterable[str]) -> tuple[KeptFile, ...]:
    """The files that fit the patterns (`**` for directories in between), each once; ValueError for one too large."""
    found: dict[str, KeptFile] = {}
    for pattern in patterns:
        for place in sorted(glob.glob(under(root, pattern), recursive=True)):
            if os.path.islink(place) or not os.path.isfile(place):  # a pattern with ** may name what is not there
                continue
            status = os.lstat(place)
            path = "/" + os.path.relpath(place, root)
            if status.st_size > _LARGEST:
                raise ValueError(f"{path} has {status.st_size} bytes, and {_LARGEST} can be kept; move it away first")
            with open(place, "rb") as file:
                content = base64.b64encode(file.read()).decode()
            found[path] = KeptFile(path, content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return tuple(found.values())


def join_flags(root: str) -> dict[str, str]:
    """The flags that the kubelet was joined with, by name, without those that the next join sets again."""
    flags = parse_flags(parse_environment(read_text(root, _JOIN_FLAGS)))
    return {
        name: value
        for name, value in flags.items()
        if name not in _KUBEADMS_FLAGS and not name.startswith("container-runtime")
    }


def kubeadm_version(root: str, run: Run) -> tuple[int, int]:
    """Major and minor; ValueError where there is no kubeadm that answers."""
    binary = find_binary(root, "kubeadm")
    if not binary:
        raise ValueError("kubeadm is not installed, and nothing else joins a node; install the kubelet's version of it")
    code, out, err = run([binary, "version", "-o", "short"])
    version = parse_version(out) if code == 0 else ""
    if not version:
        raise ValueError(f"{binary} version fails: {(err or out).strip()}")
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _problems(root: str, run: Run, systemd: Systemd, runtime: ContainerRuntime) -> Iterable[str]:
    """What would leave the node without a way back, once it has begun."""
    files = read_files(root, 0.0)
    if files.unread:
        yield f"who made it a member of the cluster can't be told, and kubeadm joins only its own again: {files.unread}"
    elif files.made_otherwise:
        why = files.made_otherwise
        yield f"kubeadm did not join it, so kubeadm can't join it again: {why}; replace it by what made it"
    try:
        kubeadm_version(root, run)
    except ValueError as problem:
        yield str(problem)
    try:
        if not systemd.look("kubelet").exists:
            yield "there is no kubelet.service; a kubelet from snap or another distribution can't be rejoined"
    except UnitError as problem:
        yield str(problem)
    try:
        runtime.version()
    except RuntimeSilent as problem:
        yield (
            f"containerd does not answer at {runtime.socket} ({problem}), and without it pods can't be stopped nor "
            "the node joined; mend it first (role node_prep), or name its socket with rejoin_runtime_socket"
        )


def _problems_of_proxy(systemd: Systemd, places: Places) -> Iterable[str]:
    """The node joins through a proxy that is wanted, so that has to work."""
    if not places.proxy or not _wanted(systemd, places.proxy):
        return
    why = "it does not run"
    if systemd.look(places.proxy).running:
        try:
            ContainerRuntime(places.proxy_socket).version()
            return
        except RuntimeSilent as problem:
            why = f"it does not answer at {places.proxy_socket} ({problem})"
    yield (
        f"the node would join through {places.proxy}, and {why}; mend it first (journalctl -u {places.proxy}), or "
        "stop and disable it to join through containerd"
    )


def _wanted(systemd: Systemd, unit: str) -> bool:
    state = systemd.look(unit)
    return state.exists and (state.running or state.enabled)


def as_dict(found: Found) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The view and the files, as the module returns them."""
    view = {name: getattr(found.view, name) for name in HostView.__slots__}
    view |= {name: list(view[name]) for name in ("problems", "agents")}
    files = [{name: getattr(one, name) for name in KeptFile.__slots__} for one in found.files]
    return view, files
