# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of a node with systemd under a directory: generators, boot, masks and swapoff.

Written from the manuals and sources of systemd, fstab-generator, gpt-auto-generator and zram-generator, and apart
from the code under test: it shares neither parser nor rule with it, so that the two can disagree.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SWAP_GUID = "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"
UNIT_DIRECTORIES = (
    "run/systemd/generator.early",
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/lib/systemd/system",
    "run/systemd/generator.late",
)
SERVICE_DEVICES = {
    "zramswap.service": "/dev/zram0",
    "zram-config.service": "/dev/zram1",
    "dphys-swapfile.service": "/var/swap",
}


class Killed(BaseException):
    """The run ends here, as by kill -9."""


class SwapNode:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.mem_available = 1_000_000
        self.used_kib = 0
        self.running: set[str] = set()
        self.calls: list[list[str]] = []
        self.kill_at: int | None = None
        self.stuck: set[str] = set()  # devices whose swapoff never ends
        self.returns: set[str] = set()  # devices that come back as soon as they are off
        self.gpt_swap: str | None = None
        self.boots = 0
        self.warnings: list[str] = []
        self.write("etc/fstab", "# static file system information\nUUID=1-2 / ext4 errors=remount-ro 0 1\n")
        self.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
        self.write("proc/cmdline", "root=/dev/vda1 ro console=ttyS0\n")
        self.write("proc/self/mountinfo", "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n")
        self.write("usr/lib/systemd/system/swap.target", "[Unit]\nDescription=Swaps\n")
        self._meminfo()

    # Building a node

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def link(self, name: str, target: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def add_fstab(self, line: str) -> None:
        with self.path("etc/fstab").open("a", encoding="utf-8", newline="") as stream:
            stream.write(line)

    def add_unit(self, name: str, device: str, directory: str = "etc/systemd/system", by: str = "swap.target") -> None:
        self.write(f"{directory}/{name}", f"[Swap]\nWhat={device}\n\n[Install]\nWantedBy={by}\n")
        self.link(f"etc/systemd/system/{by}.wants/{name}", f"/{directory}/{name}")

    def add_service(self, name: str) -> None:
        self.write(f"usr/lib/systemd/system/{name}", "[Service]\nExecStart=/bin/true\n")
        self.link(f"etc/systemd/system/multi-user.target.wants/{name}", f"/usr/lib/systemd/system/{name}")

    def add_zram_generator(self, config: str, path: str = "etc/systemd/zram-generator.conf") -> None:
        self.write("usr/lib/systemd/system-generators/zram-generator", "#!", 0o755)
        self.write(path, config)

    def add_gpt_swap(self, flags: str = "0x0", scheme: str = "gpt", guid: str = SWAP_GUID) -> None:
        """A third partition on the root disk vda."""
        self.write("usr/lib/systemd/system-generators/systemd-gpt-auto-generator", "#!", 0o755)
        disk = "sys/devices/pci0/virtio1/block/vda"
        for number in (1, 3):
            self.write(f"{disk}/vda{number}/dev", f"254:{number}\n")
            self.write(f"{disk}/vda{number}/partition", f"{number}\n")
        self.write(f"{disk}/dev", "254:0\n")
        self.link("sys/dev/block/254:1", "../../devices/pci0/virtio1/block/vda/vda1")
        record = f"S:disk/by-uuid/5\nE:ID_PART_ENTRY_SCHEME={scheme}\nE:ID_PART_ENTRY_TYPE={guid}\n"
        self.write("run/udev/data/b254:3", f"{record}E:ID_PART_ENTRY_FLAGS={flags}\n")
        if (flags, scheme, guid) == ("0x0", "gpt", SWAP_GUID):
            self.gpt_swap = "/dev/vda3"

    # What systemd does

    def generate(self) -> None:
        """Run the generators, as boot and daemon-reload do."""
        for directory in ("run/systemd/generator", "run/systemd/generator.late"):
            shutil.rmtree(self.path(directory), ignore_errors=True)
        any_swap = False
        for raw in self.path("etc/fstab").read_text(encoding="utf-8").split("\n"):
            words = raw.split()
            if len(words) < 3 or words[0][0] == "#" or words[2] != "swap":
                continue
            any_swap = True
            device = words[0].replace("UUID=", "/dev/disk/by-uuid/")
            wanted = "noauto" not in (words[3] if len(words) > 3 else "").split(",")
            self._generated("systemd-fstab-generator", device, wanted)
        if self.gpt_swap and not any_swap:
            device = f"/dev/disk/by-diskseq/{self.boots}-part3"
            self._generated("systemd-gpt-auto-generator", device, True, "run/systemd/generator.late")
        for name in self._zram_devices():
            self._generated("/usr/lib/systemd/system-generators/zram-generator", f"/dev/{name}", True)

    def boot(self) -> set[str]:
        """Which swap is on after a boot."""
        self.boots += 1
        self.running = set()
        self.generate()
        started, devices = {"multi-user.target", "sysinit.target", "swap.target"} - self._masked_targets(), set()
        for target in list(started):
            for directory in UNIT_DIRECTORIES:
                for kind in ("wants", "requires"):
                    for link in self._list(f"{directory}/{target}.{kind}"):
                        found = self._fragment(link)
                        if found is None or self._is_mask(found):
                            continue
                        self.running.add(link)
                        if link in SERVICE_DEVICES:
                            devices.add(SERVICE_DEVICES[link])
                        elif link.endswith(".swap"):
                            devices.add(self._what(found))
        self.set_on(devices)
        return devices

    def set_on(self, devices: set[str]) -> None:
        lines = ["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"]
        for priority, device in enumerate(sorted(devices), start=2):
            kind = "partition" if device.startswith("/dev/") else "file"
            name = device.replace(" ", "\\040")
            lines.append(f"{name:<40}{kind}\t1048572\t\t{self.used_kib}\t\t-{priority}\n")
        self.write("proc/swaps", "".join(lines))
        self._meminfo()

    def on(self) -> set[str]:
        lines = self.path("proc/swaps").read_text(encoding="utf-8").splitlines()[1:]
        return {line.split()[0].replace("\\040", " ") for line in lines}

    def tree(self) -> dict[str, str]:
        """All that is written on the node's disk: nothing of /proc, /run and the state directory."""
        found = {}
        for top in ("etc", "usr"):
            for path in self.path(top).rglob("*"):
                if path.is_symlink():
                    found[str(path.relative_to(self.root))] = f"-> {os.readlink(path)}"
                elif path.is_file():
                    found[str(path.relative_to(self.root))] = path.read_bytes().hex()
        return found

    # Commands

    def run(self, command: list[str], **_options: object) -> tuple[int, str, str]:
        self._count(command)
        verb, name = command[1], command[-1]
        if verb == "show":
            return 0, "" if name == "*.swap" else self._show(name), ""
        if verb == "daemon-reload":
            self.generate()
        elif verb == "mask":
            path = self.path(f"etc/systemd/system/{name}")
            if path.exists() and not path.is_symlink():
                return 1, "", f"Failed to mask unit: File '{path}' already exists."
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_symlink():
                path.symlink_to("/dev/null")
            self.generate()
        elif verb == "stop":
            self.running.discard(name)
            self.set_on(self.on() - {SERVICE_DEVICES.get(name, "")})
        else:
            return 1, "", f"the double does not know {command}"
        return 0, "", ""

    def run_for(self, command: list[str], seconds: float) -> tuple[int, str, str]:
        self._count(command)
        device = command[1]
        assert command[0] == "swapoff"
        if device in self.stuck:
            return 124, "", f"no end after {seconds:g} s"
        if device not in self.on():
            return 255, "", f"swapoff: {device}: swapoff failed: Invalid argument"
        self.set_on(self.on() - ({device} - self.returns))
        return 0, "", ""

    # Inside

    def _count(self, command: list[str]) -> None:
        self.calls.append(command)
        if self.kill_at is not None and len(self.calls) > self.kill_at:
            raise Killed

    def _show(self, name: str) -> str:
        found = self._fragment(name)
        masked = found is not None and self._is_mask(found)
        load = "masked" if masked else "not-found" if found is None else "loaded"
        active = "active" if name in self.running else "inactive"
        return (
            f"LoadState={load}\nActiveState={active}\nSubState=x\nUnitFileState={'masked' if masked else ''}\nJob=0\n"
        )

    def _generated(self, generator: str, device: str, wanted: bool, directory: str = "run/systemd/generator") -> None:
        name = device.lstrip("/").replace("-", "\\x2d").replace(" ", "\\x20").replace("/", "-") + ".swap"
        unit = f"# Automatically generated by {generator}\n\n[Unit]\nDescription=x\n\n[Swap]\nWhat={device}\n"
        self.write(f"{directory}/{name}", unit)
        link = self.path(f"{directory}/swap.target.requires/{name}")
        if wanted and not link.is_symlink():
            self.link(str(link.relative_to(self.root)), f"../{name}")

    def _zram_devices(self) -> list[str]:
        if not self.path("usr/lib/systemd/system-generators/zram-generator").exists():
            return []
        main = [f"{top}/systemd/zram-generator.conf" for top in ("run", "etc", "usr/lib")]
        texts = [self.path(name).read_text(encoding="utf-8") for name in main if self.path(name).exists()][:1]
        for top in ("usr/lib", "etc"):
            texts += [path.read_text(encoding="utf-8") for path in self.path(f"{top}/systemd").glob("*.conf.d/*.conf")]
        sections = [part for text in texts for part in ("\n" + text).split("\n[")[1:]]
        return sorted({part.split("]")[0] for part in sections if "mount-point" not in part})

    def _masked_targets(self) -> set[str]:
        found = self._fragment("swap.target")
        return {"swap.target"} if found is not None and self._is_mask(found) else set()

    def _fragment(self, name: str) -> Path | None:
        for directory in UNIT_DIRECTORIES:
            path = self.path(f"{directory}/{name}")
            if path.is_symlink() or path.exists():
                return path
        return None

    @staticmethod
    def _is_mask(path: Path) -> bool:
        return path.is_symlink() and os.readlink(path) == "/dev/null"

    @staticmethod
    def _what(path: Path) -> str:
        return next(line[5:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("What="))

    def _list(self, directory: str) -> list[str]:
        path = self.path(directory)
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def _meminfo(self) -> None:
        self.write("proc/meminfo", f"MemTotal:        4000000 kB\nMemAvailable:    {self.mem_available} kB\n")
