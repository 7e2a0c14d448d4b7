# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Decisions with our own reckoning in containerd's place; the contract tests have the real one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_ask import Assumed
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_decide import (
    Decision,
    decide,
    fingerprint,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import FileSet, Overlay
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_mend import ConfigError
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_report import (
    changed_keys,
    differences,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import Version
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_view import Request
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.test_containerd_files import Files

MAIN, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/zz-colocation.toml"
CRI = 'plugins."io.containerd.grpc.v1.cri"'
SYSTEMD = Request(True)
VERSIONS = [Version(1, 7), Version(2, 1), Version(2, 3)]


def plan(version: Version, files: dict[str, Any], request: Request = SYSTEMD, repair: bool = False) -> Decision:
    return decide(Assumed(version), Files(files), MAIN, DROP_IN, request, repair)


def texts(decision: Decision) -> dict[str, str]:
    return {path: content.decode() for path, content in decision.edits.items()}


def test_one_x_is_edited_in_place() -> None:
    main = f"# mine\nversion = 2\n[{CRI}.containerd.runtimes.runc]\n  runtime_type = 'io.containerd.runc.v2' # yes\n"
    decision = plan(Version(1, 7), {MAIN: main})
    assert texts(decision) == {
        MAIN: f"{main}\n  [{CRI}.containerd.runtimes.runc.options]\n    SystemdCgroup = true\n"
    } or texts(decision) == {MAIN: f"{main}\n[{CRI}.containerd.runtimes.runc.options]\n  SystemdCgroup = true\n"}
    assert changed_keys(decision) == [
        {
            "key": f"{CRI}.containerd.runtimes.runc.options.SystemdCgroup",
            "before": None,
            "after": True,
        }
    ]


def test_two_x_gets_a_drop_in_first_and_then_the_import() -> None:
    decision = plan(Version(2, 3), {MAIN: "version = 3\n[debug]\nlevel = 'info'\n"})
    assert list(decision.edits) == [DROP_IN, MAIN]
    written = texts(decision)
    assert written[MAIN] == ("version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n[debug]\nlevel = 'info'\n")
    assert written[DROP_IN].endswith(
        'version = 4\n\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]\n'
        "SystemdCgroup = true\n"
    )


def test_before_2_3_the_drop_in_has_the_version_that_counts() -> None:
    assert "version = 2\n" in texts(plan(Version(2, 1), {MAIN: "version = 2\n"}))[DROP_IN]
    assert "version = 3\n" in texts(plan(Version(2, 1), {MAIN: "version = 3\n"}))[DROP_IN]
    assert "version = 3\n" in texts(plan(Version(2, 1), {MAIN: ""}))[DROP_IN]


def test_an_older_drop_in_keeps_its_version_and_what_else_it_has() -> None:
    old = "version = 3\n# kept\n[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'x'\n"
    files = {MAIN: "version = 3\nimports = ['conf.d/*.toml']\n", DROP_IN: old}
    written = texts(plan(Version(2, 3), files))
    assert list(written) == [DROP_IN]
    assert written[DROP_IN].startswith(old)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_missing_file_becomes_a_minimal_one(version: Version) -> None:
    decision = plan(version, {})
    assert decision.config_version == version.config_version
    assert decision.originals == dict.fromkeys(decision.edits)
    assert plan(version, dict(decision.edits)).edits == {}


@dataclass(frozen=True, slots=True)
class Odd:
    """A containerd that does more with an edit than it should, or less."""

    version: Version
    also: str = ""
    deaf: bool = False

    def standing(self, files: FileSet) -> dict[str, Any]:
        return Assumed(self.version).standing(files)

    def planned(self, files: FileSet) -> dict[str, Any]:
        if self.deaf:
            return Assumed(self.version).standing(FileSet(files.main, (), ()))
        return {**self.standing(files), **({self.also: 1} if self.also else {})}


def test_a_change_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Nothing was written: .* 1 other key\(s\) of the effective config: root\."):
        decide(Odd(Version(1, 7), also="root"), Files({MAIN: "version = 2\n"}), MAIN, DROP_IN, SYSTEMD)


def test_an_edit_without_effect_is_refused() -> None:
    with pytest.raises(ConfigError, match="would still not have the wished .*SystemdCgroup"):
        decide(Odd(Version(1, 7), deaf=True), Files({MAIN: "version = 2\n"}), MAIN, DROP_IN, SYSTEMD)


def test_an_unreadable_file_is_refused_or_repaired() -> None:
    files = {MAIN: f"version = 2\n[{CRI}\nx = 'secret'\n[{CRI}.registry]\nconfig_path = '/c'\n"}
    with pytest.raises(ConfigError, match=r"config\.toml: containerd can't read .* line 2, column 37"):
        plan(Version(1, 7), files)
    decision = plan(Version(1, 7), files, repair=True)
    (broken,) = decision.broken
    assert (broken.path, broken.data) == (MAIN, files[MAIN].encode())
    assert [(dropped.first, dropped.last) for dropped in broken.salvage.dropped] == [(2, 3)]
    assert "config_path = '/c'" in texts(decision)[MAIN]
    assert decision.effective_changed
    assert "secret" not in str(differences(decision))
    assert plan(Version(1, 7), dict(decision.edits)).edits == {}


def test_the_diff_has_the_changed_lines_and_their_table_only() -> None:
    main = (
        f"version = 2\n[{CRI}.registry.configs.'r'.auth]\npassword = 'secret'\n"
        f"[{CRI}.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n"
        f"[{CRI}.containerd.runtimes.runc.options]\nSystemdCgroup = false\npassword = 'secret'\n"
    )
    (diff,) = differences(plan(Version(1, 7), {MAIN: main}))
    assert diff["prepared"] == (
        f"--- {MAIN}\n+++ {MAIN}\n@@ -7 +7 @@ [{CRI}.containerd.runtimes.runc.options]\n"
        "-SystemdCgroup = false\n+SystemdCgroup = true\n"
    )


RUNTIMES = st.dictionaries(
    st.sampled_from(["runc", "nvidia", "a.b", "crun"]),
    st.tuples(
        st.sampled_from(["io.containerd.runc.v2", "io.containerd.kata.v2"]), st.sampled_from([None, True, False])
    ),
)
SPELLINGS = st.sampled_from(["headers", "inline", "dotted"])


def spell(runtimes: dict[str, tuple[str, bool | None]], spelling: str, table: str) -> str:
    lines = []
    for name, (kind, driver) in runtimes.items():
        flag = "" if driver is None else f"SystemdCgroup = {str(driver).lower()}"
        if spelling == "headers":
            lines += [f"[{table}.'{name}']", f"  runtime_type = '{kind}' # {name}"]
            lines += [f"  [{table}.'{name}'.options]", f"    {flag}"] if flag else []
        elif spelling == "inline":
            options = f", options = {{ {flag} }}" if flag else ""
            lines.append(f"{table}.'{name}' = {{ runtime_type = '{kind}'{options} }}")
        else:
            lines.append(f"{table}.'{name}'.runtime_type = '{kind}'")
            lines += [f"{table}.'{name}'.options.{flag}"] if flag else []
    return "\n".join(lines) + "\n"


@given(st.sampled_from(VERSIONS), RUNTIMES, SPELLINGS, st.booleans())
def test_any_spelling_of_runtimes_gets_the_driver_and_keeps_its_lines(
    version: Version, runtimes: dict[str, tuple[str, bool | None]], spelling: str, systemd: bool
) -> None:
    main = "# head\nversion = 2\n" + spell(runtimes, spelling, f"{CRI}.containerd.runtimes")
    source = Files({MAIN: main})
    decision = plan(version, {MAIN: main}, Request(systemd))
    planned = Overlay(source, decision.edits)
    again = decide(Assumed(version), planned, MAIN, DROP_IN, Request(systemd))
    assert again.edits == {}
    assert fingerprint(again.after) == fingerprint(decision.after)
    written = texts(decision).get(MAIN, main).splitlines()
    lost = [line for line in main.splitlines() if line not in written]
    assert all("SystemdCgroup" in line or "{" in line for line in lost)
