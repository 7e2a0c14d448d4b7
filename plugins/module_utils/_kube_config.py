# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What kubeconfigs say: one or several files, or a mapping, become one value.

Several files (KUBECONFIG=a:b) merge as in kubectl: the first that names a cluster, user or context wins, and so does
the first current-context; paths in a file are relative to its directory. PyYAML reads the files where it is installed,
on every controller; our own reader of plain block YAML does on nodes, which have nothing but Python.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import (
    Access,
    AccessError,
    ExecPlugin,
    Impersonation,
    Material,
    NotKnownHere,
    decode_text,
    parse_proxy,
    split_server,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._plain_yaml import MoreYaml, YamlProblem, load_plain

_TOLD = ("server", "certificate-authority-data", "tls-server-name", "proxy-url")
_GONE = "auth-provider"  # Kubernetes 1.26 dropped it


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A parsed kubeconfig and where it came from."""

    document: Mapping[str, Any]
    name: str
    directory: str  # what its paths are relative to


def read_kubeconfig(path: str) -> Kubeconfig:
    """The kubeconfig in a file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise AccessError(f"the kubeconfig {path} can't be read: {reason}") from None
    return Kubeconfig(parse_document(text, path), path, os.path.dirname(os.path.abspath(path)))


def parse_document(text: str, name: str) -> Mapping[str, Any]:
    """A kubeconfig's text as a mapping whose scalars are texts; errors say the line, never the content."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        document = None  # YAML may begin so too
    if document is None:
        document = _load_yaml(text, name)
    if not isinstance(document, dict):
        raise AccessError(f"{name} is no kubeconfig: it holds no mapping")
    return document


def _load_yaml(text: str, name: str) -> Any:
    yaml = find_pyyaml()
    if yaml is None:
        try:
            return load_plain(text)
        except YamlProblem as problem:
            kind = NotKnownHere if isinstance(problem, MoreYaml) and _seems_whole(text) else AccessError
            raise kind(f"{name}: {problem}") from None
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return yaml.load(text, Loader=loader)  # a BaseLoader makes texts, lists and mappings, and nothing else
    except (yaml.YAMLError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise AccessError(f"{name} is not valid YAML{where}") from None


def _seems_whole(text: str) -> bool:
    """It has all that a kubeconfig has, and is no JSON that was cut."""
    parts = ("clusters:", "contexts:", "users:", "current-context:")
    return not text.lstrip().startswith("{") and all(part in text for part in parts)


def find_pyyaml() -> Any:
    """The module where it is installed, else None; imported only here, since many calls read no file."""
    try:
        import yaml
    except ImportError:
        return None
    return yaml


def choose_access(configs: Sequence[Kubeconfig], context_name: str = "") -> Access:
    """What the named or the current context of the merged kubeconfigs says."""
    names = ", ".join(config.name for config in configs)
    wanted = context_name or next(filter(None, (_text(c.document, "current-context") for c in configs)), "")
    if not wanted:
        raise AccessError(f"{names}: there is no current-context; name one with the option context")
    context, _home = _named(configs, "contexts", "context", wanted, names)
    cluster, cluster_home = _named(configs, "clusters", "cluster", _text(context, "cluster"), names)
    user: Mapping[str, Any] = {}
    user_home = cluster_home
    if _text(context, "user"):
        user, user_home = _named(configs, "users", "user", _text(context, "user"), names)
    return _access(cluster, cluster_home, user, user_home, f"context {wanted!r} of {names}")


def _named(
    configs: Iterable[Kubeconfig], listed: str, what: str, name: str, names: str
) -> tuple[Mapping[str, Any], Kubeconfig]:
    known = []
    for config in configs:
        entries = config.document.get(listed)
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, dict):
                continue
            section = entry.get(what)
            if _text(entry, "name") == name:
                return (section if isinstance(section, dict) else {}), config
            known.append(_text(entry, "name"))
    there = f"; there are: {', '.join(known)}" if known else ""
    raise AccessError(f"{names}: there is no {what} named {name!r}{there}")


def _access(
    cluster: Mapping[str, Any], cluster_home: Kubeconfig, user: Mapping[str, Any], user_home: Kubeconfig, source: str
) -> Access:
    if _GONE in user:
        raise AccessError(f"{source}: {_GONE!r} is gone from Kubernetes; use exec, a token or a certificate")
    server = _text(cluster, "server")
    split_server(server)  # refuses what is no address
    token = Material(_beside(user_home, _text(user, "tokenFile")), _text(user, "token"))
    proxy = _text(cluster, "proxy-url")
    return Access(
        server=server,
        source=source,
        ca=_material(cluster, "certificate-authority", cluster_home),
        verify=_text(cluster, "insecure-skip-tls-verify") != "true",
        server_name=_text(cluster, "tls-server-name"),
        certificate=_material(user, "client-certificate", user_home),
        key=_material(user, "client-key", user_home),
        token=token,
        username=_text(user, "username"),
        password=_text(user, "password"),
        exec_plugin=_plugin(user, user_home, cluster, source),
        proxy=parse_proxy(proxy) if proxy else None,
        act_as=_impersonation(user),
    )


def _plugin(user: Mapping[str, Any], home: Kubeconfig, cluster: Mapping[str, Any], source: str) -> ExecPlugin | None:
    section = user.get("exec")
    if not isinstance(section, dict):
        return None
    command = _text(section, "command")
    if not command:
        raise AccessError(f"{source}: its exec names no command")
    if _text(section, "interactiveMode") == "Always":
        raise NotKnownHere(f"{source}: {command} wants a terminal (interactiveMode: Always), and a module has none")
    environment = {
        _text(entry, "name"): _text(entry, "value") for entry in _list(section, "env") if isinstance(entry, dict)
    }
    told = cluster if _text(section, "provideClusterInfo") == "true" else None
    return ExecPlugin(
        api_version=_text(section, "apiVersion"),
        # As in kubectl: a path is relative to the kubeconfig, a bare name is looked up in PATH.
        command=_beside(home, command) if "/" in command else command,
        arguments=tuple(_scalar(word) for word in _list(section, "args")),
        environment=environment,
        cluster_info=None if told is None else _cluster_info(told),
        install_hint=_text(section, "installHint"),
    )


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, object]:
    """The cluster as ExecCredential has it."""
    told: dict[str, object] = {name: _text(cluster, name) for name in _TOLD if _text(cluster, name)}
    if _text(cluster, "insecure-skip-tls-verify") == "true":
        told["insecure-skip-tls-verify"] = True
    for extension in _list(cluster, "extensions"):
        if isinstance(extension, dict) and _text(extension, "name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told


def _impersonation(user: Mapping[str, Any]) -> Impersonation:
    extra = user.get("as-user-extra")
    pairs = [
        (str(key), _scalar(value))
        for key, values in (extra.items() if isinstance(extra, dict) else ())
        for value in (values if isinstance(values, list) else [values])
    ]
    groups = tuple(_scalar(group) for group in _list(user, "as-groups"))
    return Impersonation(_text(user, "as"), _text(user, "as-uid"), groups, tuple(pairs))


def _material(section: Mapping[str, Any], name: str, home: Kubeconfig) -> Material:
    data = _text(section, f"{name}-data")
    if data:
        return Material(content=decode_text(f"{home.name}: {name}-data", data))
    return Material(_beside(home, _text(section, name)))


def _beside(home: Kubeconfig, path: str) -> str:
    return os.path.join(home.directory, path) if path else ""


def _list(section: Mapping[str, Any], name: str) -> list[Any]:
    value = section.get(name)
    return value if isinstance(value, list) else []


def _text(section: Mapping[str, Any], name: str) -> str:
    value = _scalar(section.get(name))
    return "" if value in ("null", "~") else value


def _scalar(value: Any) -> str:
    """A scalar as its text, whoever parsed it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, (dict, list)) else str(value)
