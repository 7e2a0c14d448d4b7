# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The options by which a module reaches the API, with the names that users of kubernetes.core know.

`kubeconfig` is marked no_log so that nothing of it reaches the system's log. Ansible would then hide every word that
stands in it from all output, names of servers and contexts too; `connect` narrows that to what is secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import LEAST_SECRET, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access

_SECRET_KEYS = ("token", "password", "client-key-data", "proxy-url")


def kube_arguments() -> dict[str, dict[str, Any]]:
    """The argument spec; the fragment colocation.kubernetes.kube_auth documents it."""
    return {
        "kubeconfig": {"type": "raw", "no_log": True},
        "context": {"type": "str"},
        "host": {"type": "str"},
        "api_key": {"type": "str", "no_log": True},
        "username": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
        "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
        "client_cert": {"type": "path", "aliases": ["cert_file"]},
        "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
        "tls_server_name": {"type": "str"},
        "proxy": {"type": "str", "no_log": True},
        "no_proxy": {"type": "str"},
        "proxy_headers": {
            "type": "dict",
            "options": {"proxy_basic_auth": {"type": "str", "no_log": True}},
        },
        "impersonate_user": {"type": "str"},
        "impersonate_groups": {"type": "list", "elements": "str"},
    }


def connect(module: Any, timeout: float = 30) -> KubeClient:
    """A client by the module's options, or the module's end with the reason. Nothing is asked of the API yet."""
    _show_all_but_secrets(module)
    try:
        access = find_access(module.params)
    except AccessError as problem:
        module.fail_json(msg=str(problem))
        raise
    module.no_log_values.update(access.secrets())
    return KubeClient(access, timeout, f"colocation.kubernetes.{module._name.rpartition('.')[2]}")


def _show_all_but_secrets(module: Any) -> None:
    """A path or a server's name from the option kubeconfig may be told."""
    kubeconfig = module.params.get("kubeconfig")
    if not kubeconfig:
        return
    secret = set(_secrets(kubeconfig)) if isinstance(kubeconfig, Mapping) else set()
    harmless = set(_texts(kubeconfig)) - secret
    for name in ("api_key", "password", "proxy"):
        harmless.discard(module.params.get(name))
    module.no_log_values.difference_update(harmless)
    module.no_log_values.update(secret)


def hide_secret_objects(module: Any, documents: Iterable[Mapping[str, Any]]) -> None:
    """Of objects that are an option marked no_log, what Secrets hold stays hidden; the rest may be told."""
    secret: set[str] = set()
    harmless: set[str] = set()
    for document in documents:
        for key, content in document.items():
            hidden = document.get("kind") == "Secret" and key in ("data", "stringData")
            (secret if hidden else harmless).update(_texts(content))
    module.no_log_values.difference_update(harmless - secret)
    module.no_log_values.update(text for text in secret if len(text) >= LEAST_SECRET)


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _SECRET_KEYS:
                yield from _texts(inner)
            elif key == "value" and len(str(inner)) >= LEAST_SECRET:  # of an exec program's variable
                yield str(inner)
            else:
                yield from _secrets(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
