# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is in a mounted volume survives: real mounts of the kernel, in a mount namespace of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _rejoin_mounts

# A subPath's bind mount (same device as its surroundings), a tmpfs over it, a second mount at one point, and one that
# somebody uses: what the volumes of pods look like to the kernel.
SCRIPT = """
import os, subprocess, sys, time
from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_mounts import (
    MountError, mounted_beneath, unmount_beneath, wipe)

place = sys.argv[1]
home, data = place + "/kubelet", place + "/data"
pod = home + "/pods/1/volume-subpaths/kept/main/0"
for path in (pod, data, home + "/pods/2", place + "/with space"):
    os.makedirs(path)
for path in (data, place + "/with space"):
    with open(path + "/deed", "w") as file:
        file.write("kept")

def mount(*words):
    subprocess.run(["mount", *words], check=True)

mount("--bind", data, pod)
mount("-t", "tmpfs", "none", home + "/pods/2")
mount("--bind", data, home + "/pods/2")
os.makedirs(home + "/a b")
mount("--bind", place + "/with space", home + "/a b")
assert len(mounted_beneath(home)) == 4

def unmount(tries):
    return unmount_beneath(home, lambda command: run_for(command, 20), pause=lambda: time.sleep(0.1), tries=tries)

user = subprocess.Popen(["sleep", "60"], cwd=pod)
try:
    unmount(2)
    raise SystemExit("a busy volume was unmounted")
except MountError as problem:
    assert pod in str(problem) and "fuser" in str(problem), problem
try:
    wipe(home)
    raise SystemExit("the kubelet's directory was emptied beside a volume")
except MountError:
    pass
user.kill()
user.wait()
unmount(5)
assert mounted_beneath(home) == []
wipe(home)
assert os.listdir(home) == []
for path in (data, place + "/with space"):
    assert open(path + "/deed").read() == "kept"
print("kept")
"""


def test_volumes_are_unmounted_and_keep_their_data(tmp_path: Path) -> None:
    collections = Path(_rejoin_mounts.__file__).parents[5]
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], check=False)
    if probe.returncode != 0:
        pytest.skip("nothing can be mounted here")
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(collections)},
        text=True,
        timeout=60,
    )
    assert done.stdout == "kept\n", done.stderr
    assert (tmp_path / "data" / "deed").read_text() == "kept"
