# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The steps of a rejoin that are done on the host: stop, reset, join, start. Each proves what the next one needs.

A killed run's module lives on here for a while, so each step holds a lock of the kernel. Nothing is deleted before the
kubelet and all containers are stopped and all volumes unmounted, by what the kernel says and not by what was ordered.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import (
    Container,
    ContainerRuntime,
    RuntimeSilent,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._directory_lock import locked
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    FileState,
    put_file,
    remove,
    remove_leftover,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    BOOTSTRAP_KUBECONFIG,
    KUBECONFIG,
    find_binary,
    find_process,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_look import (
    MANIFESTS,
    Mark,
    Places,
    kubeadm_version,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_mounts import (
    MOUNTINFO,
    fstab_beneath,
    mounted_beneath,
    unmount_beneath,
    wipe,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import KeptFile, RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_saved import CNI_DIRECTORY
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_token import join_configuration
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd

KUBELET_HOME = "/var/lib/kubelet"
CNI_STATE = "/var/lib/cni"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
RUN_DIRECTORY = "/run/colocation-rejoin"  # in memory: what is secret never reaches a disk
_CGROUPS = tuple(
    f"/sys/fs/cgroup/{tree}{name}" for tree in ("", "systemd/", "memory/") for name in ("kubepods.slice", "kubepods")
)
_AT_ONCE = 8
_LAST_LINES = 25
RunFor = Callable[[list[str], float], tuple[int, str, str]]


class HostSide:
    """One run's hands on the host."""

    def __init__(
        self,
        systemd: Systemd,
        runtime: ContainerRuntime,
        places: Places,
        *,
        root: str = "/",
        run: RunFor = run_for,
        mountinfo: str = MOUNTINFO,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._systemd = systemd
        self._runtime = runtime
        self._places = places
        self._root = root
        self._run = run
        self._mountinfo = mountinfo
        self._clock = clock
        self._sleep = sleep
        self._mark = Mark(places.state_dir)

    # -- the steps ------------------------------------------------------------------------------------------

    def stop(self, operation: str, node: str, grace: int, timeout: float) -> dict[str, Any]:
        """Stop the kubelet, the agents and all containers and unmount the volumes; the proof that it is so."""
        self._mark.announce(operation, node)
        units = ("kubelet", *self._places.agents, *((self._places.proxy,) if self._places.proxy else ()))
        for unit in units:
            state = self._systemd.look(unit)
            if state.running or state.active == "deactivating" or state.job:
                self._systemd.stop(unit, timeout)
        said = self._stop_pods(grace, timeout)
        self._prove_stopped(said)
        gone = self._unmount()
        return {"operation": operation, "stopped": True, "unmounted": gone}

    def reset(self, operation: str, node: str, links: Sequence[str], timeout: float) -> list[str]:
        """Take the old identity and all state of pods away; what was removed beside what kubeadm removes."""
        self._prove_stopped()
        self._unmount()
        binary = find_binary(self._root, "kubeadm")
        socket = f"unix://{self._runtime.socket}"
        code, out, err = self._run([binary, "reset", "--force", "--cri-socket", socket], timeout)
        if code != 0:
            raise RejoinRefused(f"kubeadm reset failed:\n{_last(out, err)}")
        removed = []
        for directory in (CNI_DIRECTORY, CNI_STATE, KUBELET_HOME):
            removed += wipe(under(self._root, directory), self._mountinfo)
        for path in (KUBECONFIG, BOOTSTRAP_KUBECONFIG, AUTHORITY):  # kubeadm only warns where it can't
            remove(under(self._root, path))
        for link in links:
            if os.path.exists(under(self._root, f"/sys/class/net/{link}")):
                self._must(["ip", "link", "delete", link], 30)
                removed.append(f"network link {link}")
        self._mount_again()
        self._mark.write(operation, node)
        return removed

    def join(
        self,
        node: str,
        way: Mapping[str, Any],
        files: Sequence[KeptFile],
        timeout: float,
        flags: Mapping[str, Any] | None = None,
    ) -> None:
        """Put the files back, start the proxy, let kubeadm join, and see that the kubelet has its certificate."""
        for one in files:
            if not one.path.startswith(MANIFESTS + "/"):
                self._put(one)
        socket = self._start_proxy(timeout)
        version = kubeadm_version(self._root, lambda command: self._run(command, 30))
        configuration = under(self._root, f"{RUN_DIRECTORY}/join.json")
        try:
            os.makedirs(os.path.dirname(configuration), 0o700, exist_ok=True)
            content = join_configuration(version, node, socket, way, flags or {}).encode()
            put_file(configuration, content, FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600))
            command = [find_binary(self._root, "kubeadm"), "join", "--config", configuration]
            code, out, err = self._run(command, timeout)
        finally:
            self._forget_way()
        if code != 0 or not os.path.exists(under(self._root, KUBECONFIG)):
            said = _last(out, err).replace(str(way["token"]), "(token)")
            raise RejoinRefused(f"kubeadm join failed:\n{said}\nThe kubelet's journal:\n{self.journal()}")
        remove(under(self._root, BOOTSTRAP_KUBECONFIG))  # it holds the token; kubeadm may have been killed before that
        for one in files:
            if one.path.startswith(MANIFESTS + "/"):
                self._put(one)
        if not self._systemd.look("kubelet").enabled:
            self._systemd.enable("kubelet")

    def start(self, units: Sequence[str], timeout: float) -> list[str]:
        """Start the agents that ran before; the started. This is the last step here, so the mark goes."""
        started = []
        for unit in units:
            state = self._systemd.look(unit)
            if state.exists and not state.running:
                self._systemd.start(unit, timeout)
                started.append(unit)
        self._forget_way()
        self._mark.remove()
        return started

    def journal(self) -> str:
        return self._systemd.journal("kubelet", 15)

    # -- what they share --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, timeout: float, only_look: bool = False) -> Iterator[None]:
        """Keep other runs out while a step works; RejoinRefused when one is at it for longer."""
        directory = under(self._root, KUBELET_HOME)  # the one directory that stays all the time; no file is left
        if only_look and not os.path.isdir(directory):  # somebody removed it, and nobody works here
            yield
            return
        busy = RejoinRefused(
            f"an earlier run still works on this host after {timeout:g} s (fuser -v {directory} names "
            "its process); wait for its end and run again"
        )
        make = functools.partial(os.makedirs, directory, 0o750, exist_ok=True)
        with locked(directory, make, timeout, busy, self._clock, self._sleep):
            yield

    def _stop_pods(self, grace: int, timeout: float) -> list[str]:
        """End all containers, then their pods; what the runtime said against it.

        A pod whose network can't be taken down has ended all the same, and the next kubelet mends the rest.
        """
        running = self._runtime.running()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda one: self._tried(lambda: self._end(one, grace)), running))
            ready = [one.id for one in self._runtime.sandboxes() if one.ready]
            said = list(pool.map(lambda one: self._tried(lambda: self._runtime.stop_sandbox(one)), ready))
        end = self._clock() + timeout
        while self._still_there() and self._clock() < end:
            self._sleep(0.5)
        return [one for one in said if one]

    def _end(self, container: Container, grace: int) -> None:
        own = grace if container.grace is None else container.grace
        self._runtime.stop_container(container.id, min(own, grace))

    def _tried(self, deed: Callable[[], None]) -> str:
        try:
            deed()
        except RuntimeSilent as problem:
            return str(problem)
        return ""

    def _still_there(self) -> str:
        """What of the pods still lives, in words; empty when nothing does."""
        running = self._runtime.running()
        if running:
            return f"{len(running)} containers run: {', '.join(one.id[:13] for one in running[:5])}"
        processes = pods_processes(self._root)
        if processes:
            return f"processes of pods live: {', '.join(map(str, processes[:10]))}"
        return ""

    def _prove_stopped(self, said: Sequence[str] = ()) -> None:
        """No kubelet, no container, no process in a pod's control group, or RejoinRefused."""
        if find_process(self._root, "kubelet") is not None:
            raise RejoinRefused(
                "a kubelet runs although kubelet.service is stopped; find who started it (systemctl status PID) and "
                "run again"
            )
        left = self._still_there()
        if left:
            raise RejoinRefused(f"pods have not ended: {left}{f' ({said[0]})' if said else ''}; run again")

    def _unmount(self) -> list[str]:
        home = under(self._root, KUBELET_HOME)
        return unmount_beneath(
            home, lambda command: self._run(command, 60), pause=lambda: self._sleep(2), mountinfo=self._mountinfo
        )

    def _mount_again(self) -> None:
        """What fstab mounts beneath the kubelet's directory was unmounted with the volumes, and belongs there."""
        home = under(self._root, KUBELET_HOME)
        standing = {one.point for one in mounted_beneath(home, self._mountinfo)}
        for point in fstab_beneath(read_text(self._root, "/etc/fstab"), KUBELET_HOME):
            place = under(self._root, point)
            if place not in standing:
                os.makedirs(place, exist_ok=True)
                self._must(["mount", "--", place], 60)

    def _start_proxy(self, timeout: float) -> str:
        """The socket at which the kubelet finds its runtime: the proxy's, where one is installed and answers."""
        proxy = self._places.proxy
        if not proxy or not self._systemd.look(proxy).exists:
            return self._runtime.socket
        self._systemd.start(proxy, timeout)
        end = self._clock() + timeout
        while True:
            try:
                ContainerRuntime(self._places.proxy_socket).version()
                return self._places.proxy_socket
            except RuntimeSilent as problem:
                if self._clock() >= end:
                    raise RejoinRefused(
                        f"{proxy} runs and does not answer at {self._places.proxy_socket}: {problem}\n"
                        f"{self._systemd.journal(proxy)}"
                    ) from None
                self._sleep(0.5)

    def _put(self, one: KeptFile) -> None:
        place = under(self._root, one.path)
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        state = FileState("file", uid=one.uid, gid=one.gid, mode=one.mode)
        put_file(place, base64.b64decode(one.content), state)

    def _forget_way(self) -> None:
        configuration = under(self._root, f"{RUN_DIRECTORY}/join.json")
        remove_leftover(configuration)
        remove(configuration)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(configuration))

    def _must(self, command: list[str], seconds: float) -> None:
        code, out, err = self._run(command, seconds)
        if code != 0:
            raise RejoinRefused(f"{' '.join(command)}: {(err or out).strip()}")


def pods_processes(root: str) -> list[int]:
    """The processes in the control groups of pods, whoever started them."""
    found: list[int] = []
    for group in _CGROUPS:
        for place, _directories, names in os.walk(under(root, group)):
            if "cgroup.procs" in names:
                try:
                    with open(os.path.join(place, "cgroup.procs"), encoding="ascii") as file:
                        found += [int(word) for word in file.read().split()]
                except (OSError, ValueError):  # it went; or it is threaded, and its parent tells
                    continue
    return sorted(set(found))


def _last(out: str, err: str) -> str:
    lines = [*out.strip().splitlines(), *err.strip().splitlines()]
    return "\n".join(lines[-_LAST_LINES:])
