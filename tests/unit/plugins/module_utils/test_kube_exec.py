# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Programs that print credentials: real processes, good ones and bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError, ExecPlugin
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_exec import VERSIONS, Credentials, run_plugin


def script(place: Path, text: str) -> str:
    path = place / "login"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def says(place: Path, status: dict[str, Any], version: str = VERSIONS[0]) -> str:
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return script(place, f"echo '{answer}'")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_token_and_a_certificate(tmp_path: Path, version: str) -> None:
    plugin = ExecPlugin(version, says(tmp_path, {"token": "T"}, version))
    assert run_plugin(plugin) == Credentials("T")
    status = {"clientCertificateData": "C", "clientKeyData": "K", "expirationTimestamp": "2030-01-01T00:00:00Z"}
    found = run_plugin(ExecPlugin(version, says(tmp_path, status, version)))
    assert (found.certificate, found.key) == ("C", "K") and "K" not in repr(found)


def test_what_the_program_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = script(tmp_path, f'echo "$1 $PROFILE $KUBERNETES_EXEC_INFO" > {told}; exit 3')
    plugin = ExecPlugin(VERSIONS[0], command, ("--a",), {"PROFILE": "dev"}, {"server": "https://s"})
    with pytest.raises(AccessError, match="ended with 3"):
        run_plugin(plugin)
    argument, profile, question = told.read_text().split(" ", 2)
    assert (argument, profile) == ("--a", "dev")
    assert json.loads(question) == {
        "apiVersion": VERSIONS[0],
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://s"}},
    }


def test_it_is_started_in_the_surroundings_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name is looked for in their PATH too."""
    monkeypatch.setenv("OURS", "1")
    answer = json.dumps({"apiVersion": VERSIONS[0], "status": {"token": "T-%s-%s-%s"}})
    script(tmp_path, f'printf \'{answer}\' "$REGION" "$OURS" "$PROFILE"')
    around = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REGION": "r", "PROFILE": "theirs"}
    plugin = ExecPlugin(VERSIONS[0], "login", environment={"PROFILE": "own"}, surroundings=around)
    assert run_plugin(plugin) == Credentials("T-r--own")
    assert "theirs" not in repr(plugin)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo not json SECRET", "printed no ExecCredential"),
        ("echo '{\"status\": 1}'", "printed no ExecCredential"),
        ("echo boom >&2; exit 1", "ended with 1 instead of credentials: boom"),
        ("sleep 60", "gave no credentials within 0.5 s"),
    ],
)
def test_programs_that_fail(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(AccessError, match=told) as problem:
        run_plugin(ExecPlugin(VERSIONS[0], script(tmp_path, text)), 0.5)
    assert "SECRET" not in str(problem.value)


def test_answers_that_are_none(tmp_path: Path) -> None:
    for status, told in (({}, "neither"), ({"clientKeyData": "K", "token": "T"}, "only one")):
        with pytest.raises(AccessError, match=told):
            run_plugin(ExecPlugin(VERSIONS[0], says(tmp_path, status)))
    with pytest.raises(AccessError, match="another version"):
        run_plugin(ExecPlugin(VERSIONS[0], says(tmp_path, {"token": "T"}, VERSIONS[1])))
    with pytest.raises(AccessError, match="known are"):
        run_plugin(ExecPlugin("client.authentication.k8s.io/v1alpha1", "x"))
    with pytest.raises(AccessError, match="No such file.*; get it there"):
        run_plugin(ExecPlugin(VERSIONS[0], str(tmp_path / "none"), install_hint="get it there"))
