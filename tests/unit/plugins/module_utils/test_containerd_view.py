# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import (
    Setting,
    Version,
    in_file_form,
    parse_version,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_view import (
    Request,
    WishError,
    compare,
    cri_enabled,
    is_met,
    unexpected,
    unmet,
    wishes,
)

OLD, NEW = Version(1, 7, 24), Version(2, 1, 4)
CRI = "io.containerd.grpc.v1.cri"
RUNTIME = "io.containerd.cri.v1.runtime"


def tree(plugin: str, runtimes: dict[str, Any], **more: Any) -> dict[str, Any]:
    containerd = {"default_runtime_name": "runc", "runtimes": runtimes}
    return {"disabled_plugins": [], "plugins": {plugin: {"containerd": containerd, **more}}}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containerd github.com/containerd/containerd/v2 2.3.5 \n", Version(2, 3, 5)),
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+b4", Version(1, 7, 24)),
        ("containerd containerd.io v2.1.0 061792f0ecf3684fb30a3a0eb006799b8c6638a7", Version(2, 1, 0)),
        ("containerd github.com/containerd/containerd/v2 v2.2.0-rc.1 abc", Version(2, 2, 0)),
        ("1.7", Version(1, 7)),
        ("containerd something", None),
        ("", None),
    ],
)
def test_versions(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(("version", "config"), [((1, 6), 2), ((1, 7), 2), ((2, 0), 3), ((2, 2), 3), ((2, 3), 4)])
def test_the_newest_config_version(version: tuple[int, int], config: int) -> None:
    assert Version(*version).config_version == config


def test_settings_in_the_words_of_older_files() -> None:
    driver = Setting(("plugins", RUNTIME, "containerd", "runtimes", "a.b", "options", "SystemdCgroup"), True)
    image = Setting(("plugins", "io.containerd.cri.v1.images", "pinned_images", "sandbox"), "p")
    dirs = Setting(("plugins", RUNTIME, "cni", "bin_dirs"), ["/b"])
    assert [in_file_form(setting, 3) for setting in (driver, image, dirs)] == [driver, image, dirs]
    assert in_file_form(driver, 1).path[:3] == ("plugins", "cri", "containerd")
    assert in_file_form(image, 2) == Setting(("plugins", CRI, "sandbox_image"), "p")
    assert in_file_form(dirs, 2) == Setting(("plugins", CRI, "cni", "bin_dir"), "/b")


def test_every_runtime_of_a_runc_type_gets_the_driver() -> None:
    shown = tree(
        CRI,
        {
            "runc": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}},
            "nvidia": {"runtime_type": "io.containerd.runc.v2"},
            "old": {"runtime_type": "io.containerd.runc.v1", "options": {}},
            "kata": {"runtime_type": "io.containerd.kata.v2"},
            "untyped": {"runtime_type": ""},
        },
    )
    settings = wishes(shown, Request(True), OLD)
    assert [setting.path[4] for setting in settings] == ["nvidia", "old", "runc"]
    assert [setting.path[4] for setting in unmet(shown, settings)] == ["nvidia", "old"]
    assert [setting.path[4] for setting in unmet(shown, wishes(shown, Request(False), OLD))] == ["runc"]


def test_the_old_fashioned_default_runtime_counts() -> None:
    shown = tree(CRI, {})
    shown["plugins"][CRI]["containerd"]["default_runtime"] = {"runtime_type": "io.containerd.runc.v2"}
    (setting,) = wishes(shown, Request(True), OLD)
    assert setting.path[2:] == ("containerd", "default_runtime", "options", "SystemdCgroup")


@pytest.mark.parametrize(
    ("kind", "switch", "systemd", "wished"),
    [
        ("io.containerd.runtime.v1.linux", False, True, True),
        ("io.containerd.runtime.v1.linux", True, False, False),
        ("io.containerd.runc.v2", True, True, False),
        ("io.containerd.runc.v2", False, True, None),
    ],
)
def test_the_plugins_own_switch(kind: str, switch: bool, systemd: bool, wished: bool | None) -> None:
    shown = tree(CRI, {"runc": {"runtime_type": kind}}, systemd_cgroup=switch)
    values = [s.value for s in wishes(shown, Request(systemd), OLD) if s.path[-1] == "systemd_cgroup"]
    assert values == ([] if wished is None else [wished])
    moved = tree(RUNTIME, {"runc": {"runtime_type": kind}}, systemd_cgroup=switch)
    assert not any(s.path[-1] == "systemd_cgroup" for s in wishes(moved, Request(systemd), NEW))


@pytest.mark.parametrize(
    ("version", "cni", "key", "value"),
    [
        (OLD, {"bin_dir": "/a"}, "bin_dir", "/b"),
        (Version(2, 0), {"bin_dir": "/a"}, "bin_dir", "/b"),
        (NEW, {"bin_dir": "", "bin_dirs": ["/a"]}, "bin_dirs", ["/b"]),
        (NEW, {"bin_dir": "/a", "bin_dirs": ["/opt/cni/bin"]}, "bin_dir", "/b"),
    ],
)
def test_the_key_of_the_plugin_directory(version: Version, cni: dict[str, Any], key: str, value: Any) -> None:
    shown = tree(CRI if version.major == 1 else RUNTIME, {}, cni=cni)
    (setting,) = wishes(shown, Request(True, cni_bin_dir="/b"), version)
    assert (setting.path[-1], setting.value) == (key, value)


def test_named_runtimes_must_exist_and_know_the_option() -> None:
    shown = tree(CRI, {"runc": {"runtime_type": "io.containerd.runc.v2"}, "kata": {"runtime_type": "k"}})
    assert len(wishes(shown, Request(True, runtimes=("runc",)), OLD)) == 1
    with pytest.raises(WishError, match="no 'x' in containerd's config; it has runc, kata"):
        wishes(shown, Request(True, runtimes=("x",)), OLD)
    with pytest.raises(WishError, match="takes no SystemdCgroup"):
        wishes(shown, Request(True, runtimes=("kata",)), OLD)


def test_false_is_met_by_a_missing_key() -> None:
    path = ("a", "b")
    assert is_met({}, Setting(path, False))
    assert is_met({"a": {"b": False}}, Setting(path, False))
    assert not is_met({"a": {"b": 0}}, Setting(path, False))
    assert not is_met({}, Setting(path, True))
    assert not is_met({"a": {"b": 1}}, Setting(path, True))


def test_what_differs() -> None:
    before = tree(CRI, {"runc": {"runtime_type": "t", "snapshotter": "", "options": {"Root": ""}}}, sandbox_image="a")
    after = tree(CRI, {"runc": {"runtime_type": "t", "sandbox_mode": "podsandbox"}}, sandbox_image="b")
    before["imports"], after["version"] = ["x"], 3
    (change,) = compare(before, after)
    assert (change.path, change.before, change.after) == (("plugins", CRI, "sandbox_image"), "a", "b")
    assert compare({"a": ""}, {}) != ()  # outside of runtimes an empty value is one
    assert compare({"a": True}, {"a": 1}) != ()


def test_a_vanished_value_in_a_runtime_is_a_difference() -> None:
    before = tree(CRI, {"runc": {"runtime_type": "t", "options": {"BinaryName": "crun"}}})
    assert [change.path[-1] for change in compare(before, tree(CRI, {"runc": {"runtime_type": "t"}}))] == ["BinaryName"]


def test_which_changes_nobody_asked_for() -> None:
    before = tree(CRI, {"runc": {"runtime_type": "t"}})
    after = tree(CRI, {"runc": {"runtime_type": "t", "options": {"SystemdCgroup": True}}}, sandbox_image="b")
    setting = Setting(("plugins", CRI, "containerd", "runtimes", "runc", "options", "SystemdCgroup"), True)
    assert [c.path[-1] for c in unexpected(before, compare(before, after), [setting])] == ["sandbox_image"]


def test_a_plugin_that_is_on_again_may_appear_and_others_may_not() -> None:
    off = {"disabled_plugins": [CRI, "x.y"], "plugins": {"other": {"a": 1}}}
    on = {"disabled_plugins": ["x.y"], "plugins": {CRI: {"sandbox_image": "p"}, "other": {"a": 1}}}
    assert not cri_enabled(off)
    assert unexpected(off, compare(off, on), []) == ()
    worse = {"disabled_plugins": [], "plugins": {CRI: {}, "other": {"a": 2}}}
    assert {c.path[-1] for c in unexpected(off, compare(off, worse), [])} == {"disabled_plugins", "a"}
    assert unexpected(on, compare({**on, "plugins": {}}, on), []) != ()  # it was on: nothing may appear
