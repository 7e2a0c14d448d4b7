# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Credentials from a program, by the protocol of client.authentication.k8s.io: a JSON object in, another one out."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError, ExecPlugin

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
LIMIT = 60  # seconds; some ask a cloud
_TAIL = 300  # how much of its complaint is told


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the program printed. Never shown."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


def run_plugin(plugin: ExecPlugin, limit: float = LIMIT) -> Credentials:
    """Run the program once; it can't ask a person anything."""
    if plugin.api_version not in VERSIONS:
        spoken = plugin.api_version or "a version that it does not name"
        raise AccessError(f"{plugin.command} speaks {spoken}; known are {', '.join(VERSIONS)}")
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster_info is not None:
        spec["cluster"] = plugin.cluster_info
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    ours = os.environ if plugin.surroundings is None else plugin.surroundings
    environment = {**ours, **plugin.environment, "KUBERNETES_EXEC_INFO": json.dumps(question)}
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # it has no limit
            [plugin.command, *plugin.arguments],
            capture_output=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise AccessError(f"{plugin.command} gave no credentials within {limit:g} s") from None
    except OSError as problem:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise AccessError(f"{plugin.command} can't be run for credentials: {problem.strerror}{hint}") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-_TAIL:]
        raise AccessError(f"{plugin.command} ended with {done.returncode} instead of credentials: {said}")
    return parse_credentials(done.stdout, plugin)


def parse_credentials(output: bytes, plugin: ExecPlugin) -> Credentials:
    """The program's answer; an error never repeats it."""
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        answer = None
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise AccessError(f"{plugin.command} printed no ExecCredential with a status")
    if answer.get("apiVersion") != plugin.api_version:
        raise AccessError(f"{plugin.command} answered in another version than {plugin.api_version}")
    found = [status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData")]
    token, certificate, key = (value if isinstance(value, str) else "" for value in found)
    if not token and not certificate:
        raise AccessError(f"{plugin.command} gave neither a token nor a certificate")
    if bool(certificate) != bool(key):
        raise AccessError(f"{plugin.command} gave only one of certificate and key")
    return Credentials(token, certificate, key)
