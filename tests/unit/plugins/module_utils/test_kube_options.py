# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The options: documented as they are accepted, and secret only where they are."""

from __future__ import annotations

from typing import Any

import yaml

from ansible_collections.colocation.kubernetes.plugins.doc_fragments.kube_auth import ModuleDocFragment
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import VARIABLES
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments


class ModuleDouble:
    """What `connect` needs of an AnsibleModule, after its no_log values were gathered."""

    def __init__(self, **params: Any) -> None:
        self.params = dict.fromkeys(kube_arguments()) | params
        self._name = "colocation.kubernetes.node_capacity"
        self.no_log_values = set(_leaves(params))


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [str(value)]


def config(user: dict[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "admin@home",
        "contexts": [{"name": "admin@home", "context": {"cluster": "home", "user": "admin"}}],
        "clusters": [{"name": "home", "cluster": {"server": "https://home:6443"}}],
        "users": [{"name": "admin", "user": user}, {"name": "other", "user": {"token": "THE-OTHERS-TOKEN"}}],
    }


def test_every_option_is_documented_with_its_variable() -> None:
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
    accepted = kube_arguments()
    assert list(documented) == list(accepted)
    for name, option in documented.items():
        assert option["type"] == accepted[name]["type"] and option.get("aliases") == accepted[name].get("aliases")
        if name in VARIABLES:
            assert f"E({VARIABLES[name]})" in str(option["description"])


def test_only_secrets_stay_hidden() -> None:
    exec_env = [{"name": "A", "value": "dev"}, {"name": "B", "value": "a-long-secret-value"}]
    user = {"token": "THE-TOKEN", "exec": {"command": "login", "apiVersion": "v1", "env": exec_env}}
    module = ModuleDouble(kubeconfig=config(user))
    connect(module).close()
    assert {"THE-TOKEN", "THE-OTHERS-TOKEN", "a-long-secret-value"} <= module.no_log_values
    assert not {"https://home:6443", "home", "admin", "admin@home", "dev", "login"} & module.no_log_values


def test_a_path_is_no_secret_and_a_password_stays_one(tmp_path: Any) -> None:
    path = tmp_path / "config"
    path.write_text("x")
    module = ModuleDouble(kubeconfig=str(path), host="https://a", username="u", password=str(path))
    connect(module).close()
    assert str(path) in module.no_log_values  # it is the password too
    module = ModuleDouble(kubeconfig=str(path), host="https://a", api_key="TOKEN")
    connect(module).close()
    assert str(path) not in module.no_log_values and "TOKEN" in module.no_log_values
