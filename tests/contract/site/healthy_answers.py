# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What modules answer on a node on which all is well, for doubles of them: their names, and what each says."""

from __future__ import annotations

from typing import Any

RELEASE = "0.1.0-0123456789ab"
UNIT = "colocation-device-plugin.service"
RESOURCE = "mock.com/gpu"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
PAGE = {
    "facts": {},
    "tables": [{"title": "Resources", "columns": ["resource", "devices"], "rows": [[RESOURCE, 10], ["none", 0]]}],
}
MOCK = {"device_plugin_resources": {"mock": {RESOURCE: 10}}}


def healthy_answers(name: str, facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By module; `facts` is what node_facts read."""
    agent = {"unit": UNIT, "state": "active", "release": RELEASE, "page": PAGE}
    resource = {"name": RESOURCE, "allocatable": "10", "requested": "1", "pods": []}
    codes = {"agents": {"device_plugin": "", "cri_proxy": ""}}
    return {
        "agent_credentials_info": {"node": name, "kubelet_kubeconfig": KUBECONFIG, "account": None},
        "agent_release": {"release": RELEASE, "record": codes, "interpreter": "/usr/bin/python3", "kept": []},
        "agent_service": {"resources": []},
        "containerd_config": {"restart_needed": False},
        "node_capacity_info": {"nodes": [{"node": name, "resources": [resource]}]},
        "node_facts": {"node": facts, "asked_at": 0.0, "answered_at": 0.0},
        "node_health": {"findings": [], "agents": [agent], "node": name, "kubeconfig": KUBECONFIG},
        "node_ready": {"node": name, "ready": True, "kubeconfig": KUBECONFIG},
        "node_restore": {"kept": [], "refused": [], "problems": [], "notify_units": []},
    }
