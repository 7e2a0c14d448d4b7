# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What an uninstall must leave as it was in the cluster, a line each: python3 cluster_stands.py KUBECTL …

Nodes with what somebody wished of them and the extended resources that they have; RBAC, Secrets and ConfigMaps with a
hash of what they say, all else that a collection could bring by its name. What stays, and why, is in docs/uninstall.md.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

KINDS = (
    "namespaces,serviceaccounts,secrets,configmaps,services,deployments,daemonsets,jobs,priorityclasses,"
    "poddisruptionbudgets,clusterroles,clusterrolebindings,roles,rolebindings,leases"
)
SAYING = ("data", "rules", "roleRef", "subjects", "aggregationRule")
STAYS = "colocation-memory"  # the namespace for pods that take memory: it goes when its pods may go
TROUBLE = "node.kubernetes.io/"  # taints by which the cluster says how a node is


def of_node(node: dict[str, Any]) -> Iterator[str]:
    metadata, spec, status = node["metadata"], node["spec"], node["status"]
    name = f"node {metadata['name']}"
    for part in ("labels", "annotations"):
        yield from (f"{name} {part} {key}={value}" for key, value in metadata.get(part, {}).items())
    taints = [taint for taint in spec.get("taints", []) if not taint["key"].startswith(TROUBLE)]
    yield from (f"{name} taint {taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in taints)
    yield f"{name} cordoned {spec.get('unschedulable', False)}"
    for part in ("capacity", "allocatable"):
        yield from (f"{name} {part} {key}" for key in status.get(part, {}) if "/" in key)


def of_object(found: dict[str, Any]) -> Iterator[str]:
    metadata = found["metadata"]
    if STAYS in (metadata["name"], metadata.get("namespace")):
        return
    if metadata["name"].startswith("bootstrap-token-"):
        return  # the cluster ends it when its day is over
    said = json.dumps([found.get(key) for key in SAYING], sort_keys=True)
    # Kubernetes signs it anew whenever a bootstrap token comes or ends.
    told = "" if metadata["name"] == "cluster-info" else hashlib.sha256(said.encode()).hexdigest()[:16]
    yield f"{found['kind']} {metadata.get('namespace', '-')}/{metadata['name']} {told}"


def read(kubectl: list[str], kinds: str) -> list[dict[str, Any]]:
    command = [*kubectl, "get", kinds, "--all-namespaces", "--output=json"]
    items: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["items"]
    return items


def main() -> None:
    kubectl = sys.argv[1:]
    lines = [line for node in read(kubectl, "nodes") for line in of_node(node)]
    lines += [line for found in read(kubectl, KINDS) for line in of_object(found)]
    print("\n".join(sorted(lines)))


main()
