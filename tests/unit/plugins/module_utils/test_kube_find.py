# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where credentials are found and what beats what; nothing of this machine is read."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_config
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import (
    Access,
    AccessError,
    Impersonation,
    Material,
    Proxy,
    goes_direct,
    parse_proxy,
    split_server,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(server: Any = "https://a:6443", user: Any = None, **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u"}},
            {"name": "two", "context": {"cluster": "c", "user": "other"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "T"}}, {"name": "other", "user": {"token": "O"}}],
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.kube").mkdir(parents=True)
    return tmp_path / "home"


def find(home: Path, options: Any = None, **environ: Any) -> Access:
    return find_access(options or {}, environ, str(home), str(home / "account"))


def put(path: Path, document: dict[str, Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return str(path)


def test_nothing_is_told_with_what_was_looked_for(home: Path) -> None:
    with pytest.raises(AccessError, match=r"give kubeconfig.*\.kube/config"):
        find(home)


def test_the_order_of_places(home: Path, tmp_path: Path) -> None:
    (home / "account").mkdir()
    (home / "account/token").write_text("T")
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "444"}
    assert find(home, **pod).server == "https://[fd00::1]:444"
    put(home / ".kube/config", config("https://home"))
    assert find(home, **pod).server == "https://home"
    listed = {"KUBECONFIG": f"{tmp_path}/missing:{put(tmp_path / 'k', config('https://listed'))}"}
    assert find(home, **pod, **listed).server == "https://listed"
    named = {"K8S_AUTH_KUBECONFIG": put(tmp_path / "v", config("https://variable"))}
    assert find(home, **pod, **listed, **named).server == "https://variable"
    option = {"kubeconfig": put(tmp_path / "o", config("https://option"))}
    assert find(home, option, **pod, **listed, **named).server == "https://option"
    bare = {"host": "https://bare", "api_key": "K"}
    access = find(home, bare | option, **pod, **listed, **named)
    assert (access.server, access.token, access.ca) == ("https://bare", Material(content="K"), Material())


def test_context_option_and_variable(home: Path) -> None:
    put(home / ".kube/config", config())
    assert find(home).token.content == "T"
    assert find(home, {"context": "two"}).token.content == "O"
    assert find(home, K8S_AUTH_CONTEXT="two").token.content == "O"
    with pytest.raises(AccessError, match="no context named 'x'; there are: one, two"):
        find(home, {"context": "x"})


def test_an_option_that_proves_who_we_are_replaces_all_other_proofs(home: Path) -> None:
    user = {"client-certificate-data": coded("C"), "client-key-data": coded("K"), "exec": {"command": "x"}}
    access = find(home, {"kubeconfig": config(user=user), "api_key": "A"})
    assert access.token == Material(content="A")
    assert not access.certificate and not access.key and access.exec_plugin is None
    with pytest.raises(AccessError, match="client_cert and client_key belong together"):
        find(home, {"kubeconfig": config(), "client_cert": "/c"})


def test_other_options_beside_a_kubeconfig(home: Path) -> None:
    options = {
        "kubeconfig": config(**{"certificate-authority-data": coded("CA"), "tls-server-name": "old"}),
        "host": "https://b",
        "ca_cert": "/ca",
        "validate_certs": False,
        "tls_server_name": "new",
        "impersonate_user": "jane",
        "impersonate_groups": ["dev"],
    }
    access = find(home, options)
    assert (access.server, access.ca, access.verify, access.server_name) == ("https://b", Material("/ca"), False, "new")
    assert access.act_as == Impersonation("jane", "", ("dev",)) and access.token.content == "T"
    variables = {"K8S_AUTH_VERIFY_SSL": "no", "K8S_AUTH_IMPERSONATE_USER": "j", "K8S_AUTH_IMPERSONATE_GROUPS": "a, b"}
    access = find(home, {"kubeconfig": config()}, **variables)
    assert (access.verify, access.act_as.groups) == (False, ("a", "b"))
    with pytest.raises(AccessError, match="needs impersonate_user"):
        find(home, {"kubeconfig": config(), "impersonate_groups": ["a"]})


def test_files_of_a_kubeconfig_are_relative_to_it(home: Path, tmp_path: Path) -> None:
    user = {"client-certificate": "c.pem", "client-key": "/k.pem", "tokenFile": "t"}
    path = put(tmp_path / "deep/config", config(user=user, **{"certificate-authority": "ca.pem"}))
    access = find(home, {"kubeconfig": path})
    assert access.ca.file == f"{tmp_path}/deep/ca.pem" and access.certificate.file == f"{tmp_path}/deep/c.pem"
    assert access.key.file == "/k.pem" and access.token.file == f"{tmp_path}/deep/t"


def test_several_files_merge_as_in_kubectl(home: Path, tmp_path: Path) -> None:
    first = put(tmp_path / "1", {"users": [{"name": "u", "user": {"token": "first"}}]})
    second = put(tmp_path / "2", config("https://second"))
    access = find(home, KUBECONFIG=f"{first}:{second}")
    assert (access.server, access.token.content) == ("https://second", "first")


def test_exec_impersonation_and_extensions_of_a_kubeconfig(home: Path, tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["-a", 1],
        "env": [{"name": "PROFILE", "value": "dev"}],
        "provideClusterInfo": True,
        "interactiveMode": "IfAvailable",
    }
    user = {"exec": plugin, "as": "jane", "as-groups": ["g"], "as-uid": "7", "as-user-extra": {"k": ["v"]}}
    path = put(tmp_path / "deep/config", config(user=user, **{"insecure-skip-tls-verify": True}))
    access = find(home, {"kubeconfig": path})
    assert access.act_as == Impersonation("jane", "7", ("g",), (("k", "v"),)) and access.verify is False
    assert access.exec_plugin is not None
    assert access.exec_plugin.command == f"{tmp_path}/deep/./bin/login"
    assert access.exec_plugin.arguments == ("-a", "1") and access.exec_plugin.environment == {"PROFILE": "dev"}
    assert access.exec_plugin.cluster_info == {"server": "https://a:6443", "insecure-skip-tls-verify": True}
    with pytest.raises(AccessError, match="wants a terminal"):
        find(home, {"kubeconfig": config(user={"exec": {**plugin, "interactiveMode": "Always"}})})
    with pytest.raises(AccessError, match="auth-provider"):
        find(home, {"kubeconfig": config(user={"auth-provider": {"name": "gcp"}})})


@pytest.mark.parametrize("with_yaml", [True, False])
def test_yaml_with_and_without_pyyaml(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_yaml: bool
) -> None:
    if not with_yaml:
        monkeypatch.setattr(_kube_config, "find_pyyaml", lambda: None)
    text = "\n".join(
        ("current-context: one", "contexts:", "- name: one", "  context: {cluster: c}".replace("{cluster: c}", "")),
    )
    path = tmp_path / "config"
    path.write_text(f"{text}\n    cluster: c\n    user: u\nclusters:\n- cluster:\n    server: https://y\n  name: c\n"
                    "users:\n- name: u\n  user:\n    token: 0123\n")  # fmt: skip
    assert find(home, {"kubeconfig": str(path)}).token.content == "0123"  # a text, not a number
    path.write_text("users:\n- token: 'secret\n")
    with pytest.raises(AccessError) as problem:
        find(home, {"kubeconfig": str(path)})
    assert "secret" not in str(problem.value) and "line" in str(problem.value)
    path.write_text("- a\n")
    with pytest.raises(AccessError, match="no mapping"):
        find(home, {"kubeconfig": str(path)})


def test_files_that_can_not_be_read(home: Path, tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        find(home, {"kubeconfig": str(tmp_path / "none")})
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(AccessError, match="no text"):
        find(home, {"kubeconfig": str(tmp_path / "binary")})
    with pytest.raises(AccessError, match="not a text in base64"):
        find(home, {"kubeconfig": config(user={"client-key-data": "%%"})})


def test_secrets_are_listed_and_never_shown(home: Path) -> None:
    user = {"client-key-data": coded("KEY"), "client-certificate-data": coded("CERT"), "token": "TOKEN"}
    access = find(home, {"kubeconfig": config(user=user), "proxy": "http://u:PROXYPASS@p:3128"})
    assert {"KEY", coded("KEY"), "TOKEN", "PROXYPASS"} <= set(access.secrets())
    for secret in access.secrets():
        assert secret not in repr(access)
    password = find(home, {"host": "https://a", "username": "u", "password": "PASS"})
    assert "PASS" in set(password.secrets()) and "PASS" not in repr(password)


def test_which_proxy(home: Path) -> None:
    plain = {"kubeconfig": config()}
    own = {"kubeconfig": config(**{"proxy-url": "http://own:1"})}
    assert find(home, plain).proxy is None
    assert find(home, plain, HTTPS_PROXY="http://env:3").proxy == Proxy("env", 3)
    assert find(home, plain, HTTPS_PROXY="http://env:3", NO_PROXY="a").proxy is None
    assert find(home, own, HTTPS_PROXY="http://env:3", NO_PROXY="a").proxy == Proxy("own", 1)
    assert find(home, own | {"proxy": "http://x:y@option:2"}).proxy == Proxy("option", 2, "x:y")
    assert find(home, plain | {"proxy": "option", "no_proxy": "b"}).proxy == Proxy("option", 80)
    headers = {"proxy_headers": {"proxy_basic_auth": "a:b"}}
    assert find(home, own | headers).proxy == Proxy("own", 1, "a:b")
    for bad in ("socks5://p:1", "https://p:1"):
        with pytest.raises(AccessError, match="is not known"):
            find(home, plain | {"proxy": bad})
    with pytest.raises(AccessError, match="names no host"):
        parse_proxy("http://:1")


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("a.example.com", "example.com", True),
        ("a.example.com", ".example.com", True),
        ("aexample.com", "example.com", False),
        ("10.1.2.3", "10.0.0.0/8,other", True),
        ("10.1.2.3", "192.168.0.0/16", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("host", "*", True),
        ("host", "", False),
        ("host", " , host ", True),
        ("host", "10.0.0.0/99", False),
    ],
)
def test_what_needs_no_proxy(host: str, no_proxy: str, direct: bool) -> None:
    assert goes_direct(host, no_proxy) is direct


def test_addresses() -> None:
    assert split_server("https://h:1/p/") == ("https", "h", 1, "/p")
    assert split_server("http://h") == ("http", "h", 80, "")
    assert split_server("h:8443") == ("https", "h", 8443, "")
    assert split_server("https://[fd00::1]") == ("https", "fd00::1", 443, "")
    for bad in ("", "ftp://h", "https://", "https://h:x", "https://u@h", "https://h?a", "https://[::1"):
        with pytest.raises(AccessError, match="is none"):
            split_server(bad)
