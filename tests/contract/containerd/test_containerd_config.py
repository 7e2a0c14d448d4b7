# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""containerd_config against real containerds: what they say of the config before and after is the judge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomllib

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_ask import Containerd, find_containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_assume import assume
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import Disk, load
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_view import Request, compare, wishes
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_edit import dotted
from ansible_collections.colocation.kubernetes.plugins.module_utils._toml_read import read_toml
from ansible_collections.colocation.kubernetes.plugins.modules import containerd_config
from ansible_collections.colocation.kubernetes.tests.contract.containerd.configs import BROKEN, CONFIGS, Config
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call

DRIVER = "SystemdCgroup"


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


class Node:
    """A config directory, a containerd that reads it, and the module."""

    def __init__(self, directory: Path, binary: Path) -> None:
        self.etc = directory / "etc"
        self.main = self.etc / "config.toml"
        self.drop_in = self.etc / "conf.d" / "zz-colocation.toml"
        self.state = directory / "state"
        self.binary = binary
        self.etc.mkdir()

    def write(self, path: str, text: str | bytes) -> Path:
        target = self.etc / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return target

    def __call__(self, check_mode: bool = False, **params: Any) -> dict[str, Any]:
        fixed = {"path": str(self.main), "state_dir": str(self.state), "containerd": str(self.binary)}
        return call(containerd_config.main, check_mode, **fixed, **params)

    def dump(self) -> dict[str, Any]:
        what = ["--config", str(self.main), "config", "dump"] if self.main.exists() else ["config", "default"]
        status, output, errors = run([str(self.binary), *what])
        assert status == 0, errors
        return tomllib.loads(output)

    def content(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.etc.rglob("*")) if path.is_file()}

    def oracle(self) -> Containerd:
        return find_containerd(run, str(self.binary))


@pytest.fixture
def node(tmp_path: Path, containerd: Path) -> Node:
    return Node(tmp_path, containerd)


def runc_drivers(tree: dict[str, Any]) -> dict[str, bool]:
    plugins = tree["plugins"]
    cri = plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
    runtimes = cri["containerd"]["runtimes"]
    return {
        name: runtime.get("options", {}).get(DRIVER, False)
        for name, runtime in runtimes.items()
        if runtime["runtime_type"] == "io.containerd.runc.v2"
    }


def disabled(tree: dict[str, Any]) -> set[str]:
    return {name for name in tree["disabled_plugins"] if "cri" in name}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_users_config_gets_the_driver_and_loses_nothing(node: Node, containerd_version: str, config: Config) -> None:
    if containerd_version not in config.readable_by:
        return
    node.write("config.toml", config.data)
    before, files = node.dump(), node.content()

    told = node(check_mode=True)
    assert node.content() == files
    assert "failed" not in told, told
    done = node()
    after = node.dump()
    assert {key: done[key] for key in told if key != "warnings"} == {
        key: told[key] for key in told if key != "warnings"
    }

    assert not disabled(after)
    assert set(runc_drivers(after).values()) == {True}
    asked = {change["key"] for change in done["changed_keys"]}
    assert done["effective_changed"] == bool(asked)
    surprises = {dotted(change.path) for change in compare(before, after)} - asked
    if not disabled(before):
        assert surprises == set()
    else:
        assert all(".cri" in name for name in surprises)  # the plugin's own defaults, now that it is on

    kept = node.main.read_bytes().splitlines(keepends=True)
    lost = [line for line in config.data.splitlines(keepends=True) if line not in kept]
    assert all(b"SystemdCgroup" in line or b"cri" in line or b"systemd_cgroup" in line for line in lost), lost

    again = node()
    assert (again["changed"], again["effective_changed"], again["files"]) == (False, False, [])


def test_settings_that_are_asked_for(node: Node) -> None:
    node.write("config.toml", CONFIGS[3].data)
    before = node.dump()
    wish = {"sandbox_image": "example.com/pause:1", "cni_bin_dir": "/usr/lib/cni", "cni_conf_dir": "/srv/cni"}
    done = node(**wish)
    changed = {change["key"]: change["after"] for change in done["changed_keys"]}
    assert len([key for key in changed if key.endswith(DRIVER)]) == 2
    others = [value for key, value in sorted(changed.items()) if not key.endswith(DRIVER)]
    assert sorted(map(str, others)) in (
        sorted(["example.com/pause:1", "/usr/lib/cni", "/srv/cni"]),
        sorted(["example.com/pause:1", "['/usr/lib/cni']", "/srv/cni"]),
    )
    assert {dotted(change.path) for change in compare(before, node.dump())} == set(changed)
    assert node(**wish)["changed"] is False
    assert node()["changed"] is False  # what is not asked for stays


def test_back_to_cgroupfs(node: Node) -> None:
    node.write("config.toml", CONFIGS[3].data)
    before = node.dump()
    node()
    node(cgroup_driver="cgroupfs")
    assert set(runc_drivers(node.dump()).values()) == {False}
    assert compare(before, node.dump()) == ()


def test_no_file_at_all(node: Node) -> None:
    assert node(check_mode=True)["changed"] is True
    assert not node.main.exists()
    node()
    assert runc_drivers(node.dump()) == {"runc": True}
    assert node()["changed"] is False


def test_only_the_named_runtimes(node: Node) -> None:
    node.write("config.toml", CONFIGS[3].data)
    node(runtimes=["nvidia"])
    assert runc_drivers(node.dump()) == {"runc": False, "nvidia": True}
    assert "takes no SystemdCgroup" in node(runtimes=["kata"])["msg"]
    assert "there is no 'cuda'" in node(runtimes=["cuda"])["msg"]


def test_a_runtime_without_a_type_is_told(node: Node, containerd_version: str) -> None:
    if not containerd_version.startswith("1."):
        return  # the built-in runc keeps its type there
    node.write("config.toml", 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n')
    warnings = node()["warnings"]
    assert len(warnings) == 2
    assert "'runc' has no runtime_type" in warnings[1]


def test_a_table_in_an_import_that_counts(node: Node, containerd_version: str) -> None:
    """1.x: the imported table replaces the main file's; 2.x: the later one wins key by key."""
    node.write("config.toml", 'version = 2\nimports = ["gpu/*.toml"]\n' + CONFIGS[3].text.split("version = 2\n")[1])
    node.write("gpu/a.toml", CONFIGS[3].data)
    node.write("gpu/zzz.toml", CONFIGS[3].data)
    before = node.dump()
    done = node()
    assert set(runc_drivers(node.dump()).values()) == {True}
    assert {dotted(change.path) for change in compare(before, node.dump())} == {
        change["key"] for change in done["changed_keys"]
    }
    if containerd_version.startswith("1."):
        assert done["files"] == [str(node.etc / "gpu/zzz.toml")]
    assert node()["changed"] is False


def test_a_file_that_is_read_after_the_drop_in(node: Node, containerd_version: str) -> None:
    if containerd_version.startswith("1."):
        return
    node.write("config.toml", f"version = 3\nimports = ['{node.etc}/conf.d/*.toml']\n")
    table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"
    text = f"version = 3\n{table}  SystemdCgroup = false # mine\n  BinaryName = 'crun'\n"
    later = node.write("conf.d/zzz.toml", text)
    node()
    assert set(runc_drivers(node.dump()).values()) == {True}
    assert later.read_text() == text.replace("false", "true")
    assert node()["changed"] is False


def test_files_that_containerd_does_not_read_are_not_woken(node: Node, containerd_version: str) -> None:
    if containerd_version.startswith("1."):
        return
    node.write("config.toml", "version = 3\n")
    node.write("conf.d/asleep.toml", "version = 3\nroot = '/elsewhere'\n")
    node()
    assert node.dump()["root"] == "/var/lib/containerd"
    assert set(runc_drivers(node.dump()).values()) == {True}


@pytest.mark.parametrize("config", BROKEN, ids=lambda config: config.name)
def test_a_config_that_containerd_cannot_read(node: Node, config: Config) -> None:
    node.write("config.toml", config.data)
    for check_mode in (True, False):
        refused = node(check_mode=check_mode)
        assert refused["failed"] is True
        assert str(node.main) in refused["msg"]
        assert "repair: true" in refused["msg"]
        assert node.content() == {str(node.main): config.data}

    told = node(check_mode=True, repair=True)
    assert node.content() == {str(node.main): config.data}
    done = node(repair=True)
    assert done == told
    assert done["restart_needed"] is True
    assert done["dropped"]
    assert [Path(path).read_bytes() for path in done["backup"]] == [config.data]
    assert Path(done["backup"][0]).stat().st_mode & 0o777 == 0o600
    assert set(runc_drivers(node.dump()).values()) == {True}
    assert node()["changed"] is False


@pytest.mark.parametrize(
    ("name", "line"),
    [("a header that does not end", "line 2"), ("a word without quotes", "line 4"), ("a table twice", "line 6")],
)
def test_an_unreadable_line_is_named(node: Node, name: str, line: str) -> None:
    config = next(config for config in BROKEN if config.name == name)
    node.write("config.toml", config.data)
    assert line in node()["msg"]


def test_what_a_repair_saves(node: Node) -> None:
    half = next(config for config in BROKEN if config.name == "half a file")
    node.write("config.toml", half.data)
    node(repair=True)
    after = node.dump()
    text = str(after)
    assert after["root"] == "/data/containerd"
    assert "/etc/containerd/certs.d" in text
    assert "registry.example.com/pause:3.9" in text
    wrong = next(config for config in BROKEN if config.name == "a wrong type")
    node.write("config.toml", wrong.data)
    dropped = node(repair=True)["dropped"]
    assert len(dropped) == 1
    assert "line 3: " in dropped[0]
    assert "sandbox_image" in dropped[0]
    assert "'/c'" in str(node.dump())


def test_a_broken_import_is_repaired_where_it_is(node: Node) -> None:
    node.write("config.toml", f"version = 2\nimports = ['{node.etc}/more/*.toml']\nroot = '/data'\n")
    bad = node.write("more/site.toml", "version = 2\nstate = '/run/other'\noom_score = \n")
    assert str(bad) in node()["msg"]
    done = node(repair=True)
    assert str(bad) in done["files"]
    assert (node.dump()["root"], node.dump()["state"]) == ("/data", "/run/other")


def test_our_reader_reads_what_containerd_prints(node: Node) -> None:
    for what in ("default", "dump"):
        _status, output, _errors = run([str(node.binary), "--config", "/dev/null", "config", what])
        assert read_toml(output.encode()).tree == tomllib.loads(output)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_shadow_says_the_same(node: Node, containerd_version: str, config: Config) -> None:
    if containerd_version not in config.readable_by:
        return
    node.write("config.toml", config.data)
    version = 1 if "version" not in config.text else int(config.text.split("version = ")[1][0])
    header = "" if version == 1 else f"version = {version}\n"
    node.write("first.toml", f"{header}imports = ['{node.etc}/d/*.toml', 'config.toml']\nroot = '/first'\n")
    node.write("d/b.toml", f"{header}imports = ['../e.toml']\nstate = '/b'\n")
    node.write("d/.a.toml", f"{header}state = '/a'\n")
    node.write("e.toml", f"{header}root = '/e'\n")
    node.main = node.etc / "first.toml"
    files = load(str(node.main), Disk())
    assert compare(node.dump(), node.oracle().planned(files)) == ()
    assert compare(node.dump(), node.oracle().standing(files)) == ()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_what_is_assumed_without_containerd_is_what_it_says(
    node: Node, containerd_version: str, config: Config
) -> None:
    if containerd_version not in config.readable_by or (config.name == "version 1" and containerd_version in "2.1 2.2"):
        return  # 2.0 to 2.2 don't read the CRI table of a version 1 file
    node.write("config.toml", config.data)
    oracle = node.oracle()
    files = load(str(node.main), Disk())
    truth = node.dump()
    if disabled(truth):
        return
    request = Request(True, None, "x/y:1", "/b", "/c")
    assumed = assume(files, oracle.version)
    assert wishes(assumed, request, oracle.version) == wishes(truth, request, oracle.version)
