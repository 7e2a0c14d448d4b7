# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Packages of the distribution: whether one is installed, its installation when it is missing, its removal."""

from __future__ import annotations

from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Run

_NOT_FOUND = 127
_UNFINISHED = ("half-installed", "unpacked", "half-configured")
# An administrator's configuration stays, and nobody is asked; the package's own stands beside it as .dpkg-dist.
_KEEP = ("--force-confdef", "--force-confold")


class PackageError(Exception):
    """The package manager refused; the text has its last words."""


class Packages:
    """dpkg or rpm, whichever the node has."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def is_installed(self, name: str) -> bool:
        """Installed now; a removed package whose configuration stayed is not."""
        code, out, _err = self.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name])
        if code != _NOT_FOUND:
            return out.strip() == "installed"
        code, _out, err = self.run(["rpm", "-q", name])
        if code == _NOT_FOUND:
            raise PackageError(f"neither dpkg-query nor rpm is there to tell whether {name} is installed: {err}")
        return code == 0

    def is_unfinished(self, name: str) -> bool:
        """Its files are there, but dpkg did not get to the end of its installation."""
        _code, out, _err = self.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name])
        return out.strip() in _UNFINISHED

    def configure(self, name: str) -> None:
        """Let dpkg finish the version that it unpacked; `install` would take a newer one where the lists know it."""
        self.run(["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *_KEEP, "--configure", name])

    def install(self, name: str, version: str = "") -> None:
        """Install a package, of that version if one is named; an interrupted earlier installation is finished first."""
        code, _out, _err = self.run(["apt-get", "--version"])
        if code == 0:
            return self._apt_install(f"{name}={version}" if version else name)
        for tool in ("dnf", "yum"):
            code, out, err = self.run([tool, "-y", "install", f"{name}-{version}" if version else name])
            if code == 0:
                return None
            if code != _NOT_FOUND:
                raise PackageError(f"{tool} could not install {name}: {(err or out).strip()[-500:]}")
        raise PackageError(f"no package manager found to install {name}")

    def _apt_install(self, wanted: str) -> None:
        apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"]
        keep = [word for option in _KEEP for word in ("-o", f"Dpkg::Options::={option}")]
        install = [*apt, *keep, "install", "--no-install-recommends", wanted]
        code, out, err = self.run(install)
        if code != 0 and "dpkg --configure -a" in err:
            self.run(["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *_KEEP, "--configure", "-a"])
            code, out, err = self.run(install)
        if code != 0:  # the lists may be missing or old
            self.run([*apt, "update"])
            code, out, err = self.run(install)
        if code != 0:
            raise PackageError(f"apt-get could not install {wanted}: {(err or out).strip()[-500:]}")

    def remove(self, name: str) -> None:
        """Remove a package and keep its configuration."""
        for tool in ("apt-get", "dnf", "yum"):
            code, out, err = self.run([tool, "-y", "remove", name])
            if code == 0:
                return
            if code != _NOT_FOUND:
                raise PackageError(f"{tool} could not remove {name}: {(err or out).strip()[-500:]}")
        raise PackageError(f"no package manager found to remove {name}")
