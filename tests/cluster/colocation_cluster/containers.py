# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Container images without a registry: a tar of a manifest, a config and one layer each.

`pause` and `workload` are one static busybox; `kube-scheduler` is the program that we built; `python` is a
plain Python out of the Debian root file system.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .binaries import binary, kubernetes
from .cache import cache_dir, content_key, made_once
from .rootfs import members, rootfs
from .say import ClusterError

REPOSITORY = "colocation.test"
PYTHON_PACKAGES = (
    "python3-minimal", "python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib", "python3",
    "python3.13", "libpython3-stdlib", "libc6", "libexpat1", "zlib1g", "libssl3t64", "libffi8", "libbz2-1.0",
    "liblzma5", "libsqlite3-0", "libuuid1", "libncursesw6", "libtinfo6", "libreadline8t64", "libdb5.3t64",
    "libzstd1", "ca-certificates", "tzdata",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an image: `fill` adds the layer's files."""

    name: str
    fill: Callable[[tarfile.TarFile], None]
    command: tuple[str, ...]

    @property
    def tag(self) -> str:
        return f"{REPOSITORY}/{self.name}:1"


def images(minor: str = "1.36") -> dict[str, Image]:
    """All images by name; `minor` chooses the kube-scheduler."""
    return {
        image.name: image
        for image in (
            Image("pause", _add_busybox, ("/bin/busybox", "sleep", "2147483647")),
            Image("workload", _add_busybox, ("/bin/sleep", "2147483647")),
            Image("kube-scheduler", lambda layer: _add_scheduler(layer, minor), ("/usr/local/bin/kube-scheduler",)),
            Image("python", _add_python, ("/usr/bin/python3",)),
        )
    }


def archive(name: str, minor: str = "1.36") -> Path:
    """The image as a tar for `ctr images import`; made when first asked for."""
    known = images(minor)
    if name not in known:
        raise ClusterError(f"no image {name}; there are {', '.join(known)}")
    scheduler = str(binary(kubernetes(minor), "kube-scheduler").parent.name) if name == "kube-scheduler" else ""
    key = content_key(Path(__file__), rootfs("trixie").name, scheduler)
    return made_once(
        cache_dir() / "images" / f"{name}-{key}.tar",
        lambda out: write_archive(known[name], out),
        f"make container image {name}",
    )


def write_archive(image: Image, out: Path) -> None:
    """Write the docker-archive form, the same bytes for the same content."""
    with tempfile.NamedTemporaryFile(dir=out.parent) as scratch:
        with tarfile.open(fileobj=scratch, mode="w", format=tarfile.PAX_FORMAT) as layer:
            image.fill(layer)
        scratch.flush()
        with open(scratch.name, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else ""
        digest = digest or hashlib.sha256(Path(scratch.name).read_bytes()).hexdigest()
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": list(image.command), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            },
            sort_keys=True,
        ).encode()
        config_name = hashlib.sha256(config).hexdigest() + ".json"
        manifest = json.dumps([{"Config": config_name, "RepoTags": [image.tag], "Layers": ["layer.tar"]}]).encode()
        with tarfile.open(out, "w") as tar:
            add_file(tar, config_name, config)
            add_file(tar, "manifest.json", manifest)
            tar.add(scratch.name, "layer.tar", filter=_plain)


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Add a file from memory with no trace of when or by whom."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)


def _add_folder(tar: tarfile.TarFile, name: str, mode: int = 0o755) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _base(layer: tarfile.TarFile) -> None:
    for folder in ("bin", "etc", "proc", "sys", "dev", "root", "usr", "usr/local", "usr/local/bin"):
        _add_folder(layer, folder)
    _add_folder(layer, "tmp", 0o1777)
    add_file(layer, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    add_file(layer, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def _add_busybox(layer: tarfile.TarFile) -> None:
    _base(layer)
    with tarfile.open(rootfs("trixie")) as tar:
        member = next(found for found in members(tar, ["busybox-static"]) if found.name.endswith("bin/busybox"))
        stream = tar.extractfile(member)
        content = stream.read() if stream else b""
    add_file(layer, "bin/busybox", content, 0o755)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder, "busybox")
        local.write_bytes(content)
        local.chmod(0o755)
        applets = subprocess.run([local, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in sorted(set(applets) - {"busybox"}):
        _add_link(layer, f"bin/{applet}", "busybox")


def _add_scheduler(layer: tarfile.TarFile, minor: str) -> None:
    _base(layer)
    add_file(layer, "usr/local/bin/kube-scheduler", binary(kubernetes(minor), "kube-scheduler").read_bytes(), 0o755)


def _add_python(layer: tarfile.TarFile) -> None:
    for link in ("bin", "sbin", "lib", "lib64"):
        _add_link(layer, link, f"usr/{link}")
    with tarfile.open(rootfs("trixie")) as tar:
        for member in members(tar, PYTHON_PACKAGES):
            name = member.name.removeprefix("./").rstrip("/")
            if name.split("/")[0] in ("", "bin", "sbin", "lib", "lib64") or name.startswith("usr/share/doc"):
                continue
            member.name = name
            if member.islnk():
                member.linkname = member.linkname.removeprefix("./")
            layer.addfile(_plain(member), tar.extractfile(member) if member.isreg() else None)
