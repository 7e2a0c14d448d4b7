# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The disk that every node of a kind starts from: Debian, our overlay, Kubernetes' programs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from .binaries import binary, containerd, kubernetes
from .cache import cache_dir, content_key, made_once
from .command import run
from .containers import archive
from .rootfs import IMAGE, PACKAGE_FOLDER, package_index, rootfs

DISK_SIZE = "8G"
PRELOADED = ("pause", "workload")
ENABLED = ("test-address", "systemd-networkd", "ssh", "containerd", "kubelet", "kube-proxy", "systemd-timesyncd")
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "fstrim.timer", "e2scrub_all.timer", "dpkg-db-backup.timer",
          "systemd-networkd-wait-online.service", "e2scrub_reap.service", "getty@tty1.service")  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeImage:
    """A finished image: its disk, the kernel to boot it with, the key that opens its ssh."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.raw"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd"

    @property
    def ssh_key(self) -> Path:
        return self.folder / "id_ed25519"


def node_image(suite: str, minor: str, containerd_minor: str) -> NodeImage:
    """The image for this Debian, Kubernetes and containerd ("debian": the distribution's own)."""
    programs = {f"usr/bin/{name}": binary(kubernetes(minor), name) for name in ("kubelet", "kubeadm", "kubectl")}
    programs["usr/local/bin/kube-proxy"] = binary(kubernetes(minor), "kube-proxy")
    if containerd_minor != "debian":
        for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
            programs[f"usr/bin/{name}"] = binary(containerd(containerd_minor), name)
    tars = [archive(name) for name in PRELOADED]
    tree = rootfs(suite)
    key = content_key(
        tree.name,
        Path(__file__),
        IMAGE / "overlay",
        IMAGE / "usercustomize.py",
        *(f"{name}={path.parent.name}" for name, path in programs.items()),
        *(tar.name for tar in tars),
    )
    folder = cache_dir() / "images" / f"node-{suite}-{minor}-{containerd_minor}-{key}"
    what = f"make node image Debian {suite}, Kubernetes {minor}, containerd {containerd_minor}"
    return NodeImage(made_once(folder, lambda product: _make(product, tree, programs, tars), what))


def _make(product: Path, tree: Path, programs: dict[str, Path], tars: list[Path]) -> None:
    product.mkdir()
    root = product / "root"
    root.mkdir()
    run(["tar", "--numeric-owner", "--xattrs", "-xf", tree, "-C", root], "unpack the root file system")
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test cluster", "-f", product / "id_ed25519"], "ssh key")
    _fill(root, programs, tars, (product / "id_ed25519.pub").read_text())
    for source, target in (("vmlinuz-*", "vmlinuz"), ("initrd.img-*", "initrd")):
        shutil.copy(next((root / "boot").glob(source)), product / target)
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-d", root, product / "disk.raw", DISK_SIZE], "mke2fs")
    shutil.rmtree(root)


def _fill(root: Path, programs: dict[str, Path], tars: list[Path], public_key: str) -> None:
    run(["cp", "-a", "--no-preserve=ownership", f"{IMAGE}/overlay/.", root], "copy the overlay")
    run(["chown", "-R", "-h", "0:0", root / "etc", root / "usr/local/sbin"], "own the overlay")
    for name, path in programs.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / name)
    for python in (root / "usr/bin").glob("python3.[0-9]*"):
        site = root / "root/.local/lib" / python.name / "site-packages"
        site.mkdir(parents=True)
        shutil.copy(IMAGE / "usercustomize.py", site)
    images = root / "usr/local/share/images"
    images.mkdir(parents=True)
    for tar in tars:
        shutil.copy(tar, images)
    keys = root / "root/.ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    (keys / "authorized_keys").write_text(public_key)
    (keys / "authorized_keys").chmod(0o600)
    (root / PACKAGE_FOLDER / "Packages").write_text(package_index(root / PACKAGE_FOLDER))
    (root / "etc/machine-id").write_text("uninitialized\n")
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    run(["ssh-keygen", "-q", "-A", "-f", root], "ssh host keys")
    run(["chroot", root, "systemctl", "--quiet", "enable", *ENABLED], "enable units")
    run(["chroot", root, "systemctl", "--quiet", "mask", *MASKED], "mask units")
