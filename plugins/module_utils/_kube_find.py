# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where the way to the API is looked for: options, their environment variables, kubeconfigs, the pod's own account.

The options have kubernetes.core's names and so have their variables (K8S_AUTH_…). An option beats its variable, both
beat what a kubeconfig says; an option that proves who we are replaces every such proof of the kubeconfig, so that one
call never speaks with two identities.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

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
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import (
    Kubeconfig,
    choose_access,
    read_kubeconfig,
)

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
VARIABLES = {
    "kubeconfig": "K8S_AUTH_KUBECONFIG",
    "context": "K8S_AUTH_CONTEXT",
    "host": "K8S_AUTH_HOST",
    "api_key": "K8S_AUTH_API_KEY",
    "username": "K8S_AUTH_USERNAME",
    "password": "K8S_AUTH_PASSWORD",
    "validate_certs": "K8S_AUTH_VERIFY_SSL",
    "ca_cert": "K8S_AUTH_SSL_CA_CERT",
    "client_cert": "K8S_AUTH_CERT_FILE",
    "client_key": "K8S_AUTH_KEY_FILE",
    "tls_server_name": "K8S_AUTH_TLS_SERVER_NAME",
    "proxy": "K8S_AUTH_PROXY",
    "no_proxy": "K8S_AUTH_NO_PROXY",
    "impersonate_user": "K8S_AUTH_IMPERSONATE_USER",
    "impersonate_groups": "K8S_AUTH_IMPERSONATE_GROUPS",
}
PROXY_AUTHORIZATION = "K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH"
_FALSE = ("0", "false", "no", "off", "n", "f")
_IDENTITIES = (("api_key",), ("client_cert", "client_key"), ("username", "password"))


def find_access(
    options: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    home: str = "",
    account: str = ACCOUNT,
) -> Access:
    """The way to the API that the options and their surroundings say; AccessError tells what was looked for."""
    environ = os.environ if environ is None else environ
    given = _given(options, environ)
    proves = any(all(given.get(name) for name in names) for names in _IDENTITIES)
    if given.get("host") and proves:
        base = Access(given["host"], "the options")
    elif given.get("kubeconfig") or given.get("context"):
        base = choose_access(_named_configs(given.get("kubeconfig"), environ, home), given.get("context", ""))
    else:
        base = _around(given, environ, home, account)
    return _with_proxy(_overridden(base, given), options, given, environ)


def _given(options: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Each option as it is given, else its variable's value; what is empty counts as not given."""
    given: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        value = options.get(name)
        if value is None or value == "":
            value = environ.get(variable)
        if value is None or value == "":
            continue
        given[name] = value
    checks = given.get("validate_certs")
    if isinstance(checks, str):
        given["validate_certs"] = checks.strip().lower() not in _FALSE
    groups = given.get("impersonate_groups")
    if isinstance(groups, str):
        given["impersonate_groups"] = [group.strip() for group in groups.split(",") if group.strip()]
    return given


def _named_configs(named: Any, environ: Mapping[str, str], home: str) -> list[Kubeconfig]:
    if isinstance(named, Mapping):
        return [Kubeconfig(named, "the option kubeconfig", os.getcwd())]
    if named:
        return [read_kubeconfig(os.path.expanduser(os.path.expandvars(str(named))))]
    found = _default_configs(environ, home)
    if not found:
        raise AccessError(f"there is no kubeconfig to look for the context in: {_places(environ, home)}")
    return found


def _default_configs(environ: Mapping[str, str], home: str) -> list[Kubeconfig]:
    """Those of KUBECONFIG, or the one at home; those that don't exist are left out, as kubectl does."""
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path] or [_at_home(home)]
    return [read_kubeconfig(path) for path in listed if os.path.exists(path)]


def _around(given: Mapping[str, Any], environ: Mapping[str, str], home: str, account: str) -> Access:
    """Without a word from the user: kubeconfigs, then the pod's account, then the bare host."""
    configs = _default_configs(environ, home)
    if configs:
        return choose_access(configs)
    if environ.get("KUBERNETES_SERVICE_HOST") and os.path.exists(os.path.join(account, "token")):
        return _pods_account(environ, account)
    if given.get("host"):
        return Access(given["host"], "the option host")
    raise AccessError(
        "there is no way to a Kubernetes API: give kubeconfig, or host with api_key or client_cert and client_key. "
        f"Looked for {_places(environ, home)}, and for a pod's service account"
    )


def _pods_account(environ: Mapping[str, str], account: str) -> Access:
    host = environ["KUBERNETES_SERVICE_HOST"]
    shown = f"[{host}]" if ":" in host else host
    ca, token = (Material(os.path.join(account, name)) for name in ("ca.crt", "token"))
    server = f"https://{shown}:{environ.get('KUBERNETES_SERVICE_PORT') or 443}"
    return Access(server, "the pod's service account", ca=ca, token=token)


def _places(environ: Mapping[str, str], home: str) -> str:
    return environ.get("KUBECONFIG") or _at_home(home)


def _at_home(home: str) -> str:
    return os.path.join(home or os.path.expanduser("~"), ".kube", "config")


def _overridden(base: Access, given: Mapping[str, Any]) -> Access:
    """What the options say instead of the kubeconfig."""
    rules: tuple[tuple[str, Callable[[Access, Any], Access]], ...] = (
        ("host", lambda access, value: replace(access, server=str(value))),
        ("ca_cert", lambda access, value: replace(access, ca=Material(os.path.expanduser(value)))),
        ("validate_certs", lambda access, value: replace(access, verify=bool(value))),
        ("tls_server_name", lambda access, value: replace(access, server_name=str(value))),
    )
    for name, rule in rules:
        if name in given:
            base = rule(base, given[name])
    split_server(base.server)  # refuses what is no address
    return _acting(_identified(base, given), given)


def _identified(base: Access, given: Mapping[str, Any]) -> Access:
    if not any(name in given for names in _IDENTITIES for name in names):
        return base
    for one, other in _IDENTITIES[1:]:
        if (one in given) != (other in given):
            raise AccessError(f"{one} and {other} belong together; one is missing")
    return replace(
        base,
        certificate=Material(os.path.expanduser(given.get("client_cert", ""))),
        key=Material(os.path.expanduser(given.get("client_key", ""))),
        token=Material(content=str(given.get("api_key", ""))),
        username=str(given.get("username", "")),
        password=str(given.get("password", "")),
        exec_plugin=None,
    )


def _acting(base: Access, given: Mapping[str, Any]) -> Access:
    if "impersonate_user" not in given and "impersonate_groups" not in given:
        return base
    user = str(given.get("impersonate_user", base.act_as.user))
    groups = tuple(str(group) for group in given.get("impersonate_groups", base.act_as.groups))
    if groups and not user:
        raise AccessError("impersonate_groups needs impersonate_user")
    return replace(base, act_as=Impersonation(user, "", groups))


def _with_proxy(
    base: Access, options: Mapping[str, Any], given: Mapping[str, Any], environ: Mapping[str, str]
) -> Access:
    """The option's proxy, else the kubeconfig's, else that of HTTPS_PROXY; NO_PROXY counts but for the kubeconfig's."""
    scheme, host, _port, _prefix = split_server(base.server)
    headers = options.get("proxy_headers") or {}
    authorization = str(headers.get("proxy_basic_auth") or environ.get(PROXY_AUTHORIZATION) or "")
    named = given.get("proxy", "")
    if not named and base.proxy:
        return replace(base, proxy=Proxy(base.proxy.host, base.proxy.port, authorization or base.proxy.authorization))
    if not named:
        variable = f"{scheme}_proxy"
        named = environ.get(variable) or environ.get(variable.upper()) or ""
    direct = given.get("no_proxy") or environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not named or goes_direct(host, direct):
        return replace(base, proxy=None)
    return replace(base, proxy=parse_proxy(named, authorization))
