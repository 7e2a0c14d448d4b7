# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Image archives: the form that containerd imports, the same bytes for the same content."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.containers import (
    Image,
    add_file,
    write_archive,
)

IMAGE = Image("one", lambda layer: add_file(layer, "etc/one", b"1"), ("/bin/one",))


def test_archive_is_consistent(tmp_path: Path) -> None:
    write_archive(IMAGE, tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    manifest = json.loads(content["manifest.json"])[0]
    assert manifest["RepoTags"] == ["colocation.test/one:1"]
    config = json.loads(content[manifest["Config"]])
    layer = content[manifest["Layers"][0]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["Cmd"] == ["/bin/one"]


def test_archive_is_reproducible(tmp_path: Path) -> None:
    write_archive(IMAGE, tmp_path / "a.tar")
    write_archive(IMAGE, tmp_path / "b.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
