# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One virtual machine: QEMU's command line, its monitor, saving and restoring its whole state."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .command import program, run
from .node_image import NodeImage
from .say import ClusterError, tail, wait_until
from .spec import NodeSpec
from .world import World

# Without random addresses QEMU need not translate a library anew for each process: starting one takes a quarter.
BOOT = "console=ttyS0 root=/dev/vda rw net.ifnames=0 panic=10 mitigations=off norandmaps init_on_alloc=0 loglevel=4"


class Machine:
    """Node number `index` (from 1) of `count` in a world; its disks and logs are in the world's folder."""

    def __init__(self, world: World, name: str, index: int, count: int, spec: NodeSpec) -> None:
        self.world = world
        self.name = name
        self.index = index
        self.count = count
        self.spec = spec

    @property
    def disks(self) -> list[Path]:
        extra = len(self.spec.disks) + (self.spec.swap > 0)
        return [self.world.folder / f"{self.name}-{number}.qcow2" for number in range(1 + extra)]

    def make_disks(self, image: NodeImage) -> None:
        """An overlay on the image, and the extra disks, empty."""
        root, *extra = self.disks
        overlay(image.disk, "raw", root)
        for path, size in zip(extra, (*self.spec.disks, self.spec.swap), strict=False):
            run(["qemu-img", "create", "-q", "-f", "qcow2", path, f"{size}M"], f"make disk {path.name}")

    def overlay_saved(self, saved: Path) -> None:
        """Overlays on the disks of a saved machine."""
        for path in self.disks:
            overlay(saved / path.name, "qcow2", path)

    def boot(self, image: NodeImage, state: Path | None = None) -> None:
        """Start QEMU; with `state` it loads the saved machine and waits for `resume`."""
        tap = f"tap{self.index}"
        self.world.add_tap(tap)
        argv = [*self._hardware(tap), *self._boot_from(image), *self._drives()]
        argv += ["-incoming", f"exec:cat '{state}'"] if state else []
        self.world.start(self.name, argv)

    def _hardware(self, tap: str) -> list[str]:
        mac = f"52:54:00:77:00:{self.index:02x}"
        return [
            program("qemu-system-x86_64"), "-nodefaults", "-display", "none", "-no-user-config",
            *accelerator(self.spec), *topology(self.spec), "-rtc", "base=utc,clock=host",
            "-netdev", f"tap,id=net0,ifname={tap},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=net0,mac={mac},romfile=", "-device", "virtio-rng-pci",
            "-serial", f"file:{self.name}.console", "-qmp", f"unix:{self.name}.qmp,server=on,wait=off",
        ]  # fmt: skip

    def _boot_from(self, image: NodeImage) -> list[str]:
        words = f"{BOOT} systemd.hostname={self.name} test.index={self.index} test.nodes={self.count}"
        return ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", words]

    def _drives(self) -> list[str]:
        return [
            word
            for number, path in enumerate(self.disks)
            for word in (
                "-drive", f"file={path.name},format=qcow2,if=none,id=disk{number},cache=unsafe,discard=unmap",
                "-device", f"virtio-blk-pci,drive=disk{number},serial=disk{number}",
            )
        ]  # fmt: skip

    def resume(self) -> None:
        """Let a restored machine run, once its state is loaded."""

        def loaded() -> bool:
            if not self.world.runs(self.name):
                raise ClusterError(f"{self.name}: QEMU ended\n{self.explain()}")
            with contextlib.suppress(OSError, ValueError):
                return str(self.monitor("query-status")["status"]) != "inmigrate"
            return False

        wait_until(f"the saved state of {self.name}", loaded, 120, self.explain)
        self.monitor("cont")

    def pause(self) -> None:
        self.monitor("stop")

    def save(self, target: Path) -> None:
        """Write the paused machine's state and disks to a folder, and end it."""
        self.monitor("migrate-set-parameters", **{"max-bandwidth": 10 * 1024**3})
        self.monitor("migrate", uri=f"exec:cat > '{target / self.name}.state'")

        def saved() -> bool:
            status = self.monitor("query-migrate").get("status")
            if status == "failed":
                raise ClusterError(f"saving {self.name} failed\n{self.explain()}")
            return bool(status == "completed")

        wait_until(f"the saved state of {self.name}", saved, 240, self.explain)
        self.stop()
        for path in self.disks:
            path.rename(target / path.name)

    def stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.monitor("quit")
        self.world.stop(self.name)
        self.world.remove_tap(f"tap{self.index}")

    def explain(self) -> str:
        """What the console and QEMU said last."""
        console = tail(self.world.folder / f"{self.name}.console")
        return f"--- console of {self.name}\n{console}\n--- QEMU\n{tail(self.world.folder / f'{self.name}.log', 5)}"

    def monitor(self, command: str, **arguments: Any) -> dict[str, Any]:
        """One command to QEMU's monitor (QMP)."""
        descriptor = os.open(self.world.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(f"/proc/self/fd/{descriptor}/{self.name}.qmp")
                with connection.makefile("rw") as stream:
                    stream.readline()
                    for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                        stream.write(json.dumps(request) + "\n")
                        stream.flush()
                        reply = _reply(stream.readline)
                    return reply
        finally:
            os.close(descriptor)


def _reply(readline: Any) -> dict[str, Any]:
    while True:
        message = json.loads(readline())
        if "error" in message:
            raise ClusterError(f"QEMU: {message['error'].get('desc')}")
        if "return" in message:
            reply: dict[str, Any] = message["return"]
            return reply


def overlay(base: Path, form: str, path: Path) -> None:
    """A copy-on-write disk on top of another."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", form, path], f"make disk {path.name}")


def accelerator(spec: NodeSpec) -> list[str]:
    """KVM where it can run a guest; else emulation, without the instruction that QEMU 7.2 emulates wrongly."""
    if kvm_usable():
        return ["-accel", "kvm", "-cpu", spec.cpu or "host"]
    return ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", f"{spec.cpu or 'Nehalem'},cx16=off"]


def topology(spec: NodeSpec) -> list[str]:
    """Processors, NUMA nodes and memory; one NUMA node a socket, and one for far memory."""
    cores = spec.cpus // spec.sockets // spec.dies
    words = ["-smp", f"{spec.cpus},sockets={spec.sockets},dies={spec.dies},cores={cores}"]
    words += ["-m", f"{spec.memory + spec.far}M"]
    shares: list[tuple[int, Sequence[int]]] = []
    if spec.sockets > 1 or spec.far:
        per_socket = spec.cpus // spec.sockets
        for node in range(spec.sockets):
            shares.append((spec.memory // spec.sockets, (node * per_socket, (node + 1) * per_socket - 1)))
    if spec.far:
        shares.append((spec.far, ()))
    for node, (memory, cpus) in enumerate(shares):
        words += ["-object", f"memory-backend-ram,id=mem{node},size={memory}M"]
        words += ["-numa", f"node,nodeid={node},memdev=mem{node}" + (f",cpus={cpus[0]}-{cpus[1]}" if cpus else "")]
    return words


@functools.cache
def kvm_usable() -> bool:
    """Whether KVM runs a guest here. An openable /dev/kvm is not enough: some hosts offer one that can't boot."""
    if os.environ.get("COLOCATION_KVM") in ("0", "1"):
        return os.environ["COLOCATION_KVM"] == "1"
    flags = Path("/proc/cpuinfo").read_text()
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and (" svm" in flags or " vmx" in flags)


@functools.cache
def hypervisor() -> str:
    """What a saved state depends on besides its content: QEMU's version and the accelerator."""
    version = subprocess.run(
        [program("qemu-system-x86_64"), "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    return f"{version} kvm={kvm_usable()}"
