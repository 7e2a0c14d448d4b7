# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""docs/security-model.md against real API servers: its table is what they answered to a thief of each identity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils import _agent_rights
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import choose_access, read_kubeconfig
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import KUBERNETES_MINORS
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.credentials.deeds import (
    DEEDS,
    OTHER,
    OWN,
    Target,
    populate,
    target,
)
from ansible_collections.colocation.kubernetes.tests.contract.credentials.node_double import NodeDouble

DOCUMENT = Path(_agent_rights.__file__).parents[2] / "docs" / "security-model.md"
BEGIN, END = "<!-- begin: what a thief can do -->\n", "<!-- end: what a thief can do -->\n"
SOURCES = ("kubelet", "minted", "admin")
Answers = Mapping[tuple[str, str], str]  # by deed and source: "yes / no" for the own node and another


def answers(server: ApiServer, directory: Path) -> Answers:
    """What each identity can do, by trying it."""
    own, dummy = (NodeDouble(server, directory / name, name) for name in (OWN, OTHER))
    populate(server)
    targets = {node: target(server, node) for node in (OWN, OTHER)}
    found = {}
    for source in SOURCES:
        assert "msg" not in give(own, source)
        with KubeClient(choose_access([read_kubeconfig(str(own.kubeconfig))])) as api:
            if source == "kubelet":
                wait_until("the API server to know the node's pods", lambda: all_known(api, targets[OWN]), 30)
            for deed in DEEDS:
                aims = [OWN] if deed.everywhere else [OWN, OTHER]
                found[deed.words, source] = " / ".join("yes" if deed.works(api, targets[at]) else "no" for at in aims)
    return found


def give(node: NodeDouble, source: str) -> Mapping[str, object]:
    if source == "minted":
        return node.mint()
    return node.give(source=source, kubeconfig=node.read(node.admin_conf))


def all_known(api: KubeClient, at: Target) -> bool:
    """Authorization and admission learn from watches of their own what is on a node."""
    telling = ("read a Secret that a pod there uses", "evict a pod, within disruption budgets")
    return all(deed.works(api, at) for deed in DEEDS if deed.words in telling)


def table(by_version: Mapping[str, Answers]) -> str:
    """The table; where versions differ, a cell says so."""
    lines = [
        "| whoever has this node's credentials can … (at this node / at another) | "
        + " | ".join(f"`{source}`" for source in SOURCES)
        + " |",
        "|---|" + "---|" * len(SOURCES),
    ]
    for deed in DEEDS:
        cells = []
        for source in SOURCES:
            said = {minor: found[deed.words, source] for minor, found in sorted(by_version.items())}
            same = len(set(said.values())) == 1
            cells.append(next(iter(said.values())) if same else ", ".join(f"{m}: {a}" for m, a in said.items()))
        lines.append(f"| {deed.words} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def test_the_table_is_what_the_api_servers_answer(tmp_path: Path) -> None:
    found = {}
    for minor in KUBERNETES_MINORS:
        place = tmp_path / minor
        place.mkdir()
        with ApiServer(place, minor) as server:
            found[minor] = answers(server, place)
    written = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    true = table(found)
    assert written == true, f"between the marks of {DOCUMENT.name} this should stand:\n{true}"


def test_the_rights_in_the_document_are_those_that_are_given() -> None:
    text = DOCUMENT.read_text()
    for right in _agent_rights.RIGHTS:
        line = next(line for line in text.splitlines() if line.startswith(f"| `{right.resource}` |"))
        assert f"| {', '.join(right.verbs)} |" in line
        assert right.what_for in line
        assert ("its own Node" in line.split("|")[3]) == right.own_node


def test_so_are_those_of_who_looks_for_free_blocks() -> None:
    text = DOCUMENT.read_text()
    for right in _agent_rights.MIGRATION_RIGHTS:
        assert f"| `{right.resource}` | {', '.join(right.verbs)} | {right.what_for} |" in text
    (role,) = (yaml.safe_load(part.partition("```")[0]) for part in text.split("```yaml\n")[1:])
    resources = [right.resource for right in _agent_rights.MIGRATION_RIGHTS]
    assert role["rules"] == [{"apiGroups": [""], "resources": resources, "verbs": ["list"]}]
