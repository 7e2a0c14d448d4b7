# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kernel modules and sysctls: what the running kernel has, and what the next boot will set.

The first half is pure: texts in, facts out. `Kernel` reads and writes under `root` and loads modules through a
function of the caller's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

# systemd-sysctl's directories; of two files with one name, the earlier directory's counts.
SYSCTL_DIRECTORIES = (
    "etc/sysctl.d",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
    "lib/sysctl.d",
)


class KernelError(Exception):
    """The kernel has no such module or setting, or refused it; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One assignment in a sysctl file."""

    file: str
    path: str  # as under /proc/sys, e.g. net/ipv4/ip_forward
    value: str


def module_name(text: str) -> str:
    """The kernel's spelling: from "nf-conntrack" or "kernel/net/nf-conntrack.ko.xz" to "nf_conntrack"."""
    name = text.strip().rsplit("/", 1)[-1]
    return name.split(".ko", 1)[0].replace("-", "_")


def module_names(text: str) -> set[str]:
    """The modules that modules.builtin, modules.dep or /proc/modules list: the first word of each line."""
    return {module_name(line.split()[0].rstrip(":")) for line in text.splitlines() if line.strip()}


def sysctl_path(key: str) -> str:
    """Where a key is under /proc/sys. Whichever of "." and "/" comes first separates, the other stands for it."""
    first = next((char for char in key if char in "./"), "")
    if first == ".":
        return key.translate(str.maketrans("./", "/."))
    return key


def normal(value: str) -> str:
    """A value without the spacing that the kernel may change."""
    return " ".join(value.split())


def sysctl_value(value: object) -> str:
    """A value from YAML as the kernel spells it; true and false are 1 and 0."""
    return str(int(value)) if isinstance(value, bool) else normal(str(value))


def parse_sysctls(file: str, text: str) -> list[Setting]:
    """The explicit assignments of a sysctl file, in order. Patterns are left out: an explicit one beats them."""
    found = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;" or "=" not in line:
            continue
        key, value = line.split("=", 1)
        key = key.strip().removeprefix("-").strip()
        if key and not any(char in key for char in "*?["):
            found.append(Setting(file, sysctl_path(key), normal(value)))
    return found


def last_settings(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The assignment that counts for each path: the last."""
    return {setting.path: setting for setting in settings}


def modules_file(name: str, modules: Iterable[str]) -> bytes:
    """The content for /etc/modules-load.d."""
    return ("\n".join([f"# Kernel modules of {name}, managed by colocation.kubernetes", *modules]) + "\n").encode()


def sysctl_file(name: str, sysctls: dict[str, str]) -> bytes:
    """The content for /etc/sysctl.d."""
    lines = [f"{key} = {value}" for key, value in sysctls.items()]
    return ("\n".join([f"# Kernel settings of {name}, managed by colocation.kubernetes", *lines]) + "\n").encode()


class Kernel:
    """The running kernel, and the files that the next boot reads."""

    def __init__(self, run: Run, root: str = "/", release: str = "") -> None:
        self.run = run
        self.root = root
        self.release = release or os.uname().release

    def loaded(self) -> set[str]:
        """Modules that work now: loaded, or built in."""
        names = module_names(self._text("proc/modules"))
        return names | module_names(self._text(f"lib/modules/{self.release}/modules.builtin"))

    def can_load(self, module: str) -> bool:
        """The running kernel has that module. Where its list can't be read, only trying would tell: True."""
        listing = self._text(f"lib/modules/{self.release}/modules.dep")
        return not listing or module_name(module) in module_names(listing) or self._is_alias(module)

    def load(self, module: str) -> None:
        code, out, err = self.run(["modprobe", "--", module])
        if code != 0:
            raise KernelError(f"modprobe {module} failed: {(err or out).strip()}. {self.advice(module)}")

    def advice(self, module: str) -> str:
        """What to do about a module that can't be loaded."""
        if not os.path.isdir(os.path.join(self.root, "lib/modules", self.release)):
            return f"/lib/modules/{self.release} is missing: if the kernel was upgraded, reboot the node"
        return f"Kernel {self.release} has to bring the module {module}: install the package with its extra modules"

    def get(self, key: str) -> str | None:
        """The value now; None where the kernel doesn't know the key."""
        try:
            with open(self._sysctl(key), encoding="utf-8") as stream:
                return normal(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def set(self, key: str, value: str) -> None:
        """Set a value and see that the kernel took it."""
        try:
            with open(self._sysctl(key), "r+", encoding="utf-8") as stream:
                stream.write(value + "\n")
                stream.truncate()
        except OSError as problem:
            raise KernelError(f"sysctl {key} = {value} was refused: {problem.strerror}") from None
        taken = self.get(key)
        if taken != value:
            raise KernelError(f"sysctl {key} = {value} was written, but the kernel says {taken!r}; give that spelling")

    def configured(self, instead: Mapping[str, bytes | None] | None = None) -> list[Setting]:
        """All assignments that a boot makes, in its order; /etc/sysctl.conf last, as `sysctl --system` reads it.

        `instead` has contents that are taken for those of the files (None: absent), for a look ahead.
        """
        files: dict[str, str] = {}
        for directory in SYSCTL_DIRECTORIES:
            place = os.path.join(self.root, directory)
            for name in os.listdir(place) if os.path.isdir(place) else []:
                if name.endswith(".conf"):
                    files.setdefault(name, os.path.join(place, name))
        paths = [files[name] for name in sorted(files)]
        last = os.path.join(self.root, "etc/sysctl.conf")
        paths = [path for path in paths if os.path.realpath(path) != os.path.realpath(last)] + [last]
        texts = {path: (content or b"").decode(errors="replace") for path, content in (instead or {}).items()}
        return [
            setting
            for path in paths
            for setting in parse_sysctls(path, texts[path] if path in texts else self._text(path))
        ]

    def _is_alias(self, module: str) -> bool:
        text = self._text(f"lib/modules/{self.release}/modules.alias")
        return any(line.split()[1:2] == [module] for line in text.splitlines())

    def _sysctl(self, key: str) -> str:
        return os.path.join(self.root, "proc/sys", sysctl_path(key))

    def _text(self, path: str) -> str:
        try:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""
