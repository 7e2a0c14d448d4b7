# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""rejoin.yml by a real ansible-playbook and a real API server, over hosts whose module is a double.

What the real module does to a real host, the scenario molecule/rejoin shows.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import STEPS
from ansible_collections.colocation.kubernetes.plugins.modules import node_rejoin, node_rejoin_host
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import COLLECTIONS, ROOT, recap, run_ansible
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.doubled_collection import dead_host
from ansible_collections.colocation.kubernetes.tests.contract.rejoin.cluster_nodes import Cluster
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import (
    leftovers,
    snapshot,
)

DOUBLE = Path(__file__).with_name("host_module_double.py")
# Ansible would pack what the module imports, and finds nothing of it here.
STUB = f'#!/usr/bin/python\n# WANT_JSON\nimport runpy\nrunpy.run_path("{DOUBLE}", run_name="__main__")\n'
TOKEN = re.compile(r"(?<![\w.])(?=[a-z]*\d)[a-z0-9]{6}\.(?=[a-z]*\d)[a-z0-9]{16}(?![\w.])")


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    output: str

    def recap(self, host: str) -> dict[str, int]:
        return recap(self.output, host)


class Site:
    """A collection in which only the host's module is a double, and hosts that are files."""

    def __init__(self, place: Path, cluster: Cluster) -> None:
        self.place = place
        self.cluster = cluster
        self.hosts: dict[str, dict[str, Any]] = {}
        collection = place / "ansible_collections/colocation/kubernetes"
        (collection / "plugins/modules").mkdir(parents=True)
        for part in ("filter", "module_utils", "doc_fragments"):
            (collection / "plugins" / part).symlink_to(ROOT / "plugins" / part)
        for part in ("playbooks", "meta", "galaxy.yml", "roles"):
            (collection / part).symlink_to(ROOT / part)
        (collection / "plugins/modules/node_rejoin.py").symlink_to(ROOT / "plugins/modules/node_rejoin.py")
        (collection / "plugins/modules/node_rejoin_host.py").write_text(STUB)
        (place / "admin.conf").write_text(json.dumps(cluster.kubeconfig))

    def node(self, name: str, *breaks: str) -> str:
        """A node in the API and the host behind it; the Node's name."""
        host = self.cluster.host(name)
        fields = ("identity", "mark", "kubelet_runs", "pods_run", "agents_run", "machine_id", "flags", "units")
        files = [{key: getattr(one, key) for key in type(one).__slots__} for one in host.files]
        state = {"host": {key: getattr(host, key) for key in fields} | {"files": files}, "node": host.node}
        path = self.place / f"{name}.json"
        path.write_text(json.dumps({**state, "kubeconfig": self.cluster.kubeconfig, "breaks": breaks, "log": []}))
        python = self.place / f"python-{name}"
        exports = f"PYTHONPATH={COLLECTIONS} REJOIN_HOST={path}"
        python.write_text(f'#!/bin/sh\n{exports} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        self.hosts[name] = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
        return host.node

    def dead(self, name: str) -> None:
        self.hosts[name] = dead_host()

    def state(self, name: str, **changes: Any) -> dict[str, Any]:
        path = self.place / f"{name}.json"
        state: dict[str, Any] = json.loads(path.read_text()) | changes
        path.write_text(json.dumps(state))
        return state

    def play(self, *options: str, book: Path | None = None) -> Run:
        control_plane = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        groups = {"kube_node": {"hosts": self.hosts}, "kube_control_plane": {"hosts": {"cp": control_plane}}}
        (self.place / "hosts.json").write_text(json.dumps({"all": {"children": groups}}))
        variables = {"rejoin_admin_kubeconfig": str(self.place / "admin.conf"), "rejoin_lock_seconds": 1}
        rejoin = self.place / "ansible_collections/colocation/kubernetes/playbooks/rejoin.yml"
        command = ["ansible-playbook", "-i", "hosts.json", "-e", json.dumps(variables), *options, str(book or rejoin)]
        return Run(*run_ansible(self.place, *command, collections=self.place))


@pytest.fixture
def site(api_server: ApiServer, tmp_path: Path) -> Iterator[Site]:
    cluster = Cluster(api_server)
    yield Site(tmp_path, cluster)
    cluster.close()


def test_one_after_the_other_past_a_host_that_does_not_answer(site: Site) -> None:
    nodes = {name: site.node(name) for name in ("one", "two")}
    site.state("two", host=site.state("two")["host"] | {"units": ["cri-resource-manager.service"]})
    site.dead("gone")
    before = {name: snapshot(site.cluster.client, node) for name, node in nodes.items()}

    unnamed = site.play()
    assert unnamed.status != 0 and "rejoin_nodes" in unnamed.output
    planned = site.play("-e", "rejoin_nodes=one", "--check", "--diff")
    assert planned.status == 0, planned.output
    assert planned.recap("one")["changed"] == 1
    assert re.findall(r"^\+(\w+)$", planned.output, re.MULTILINE) == list(STEPS)
    assert site.state("one")["log"] == ["look"]
    assert snapshot(site.cluster.client, nodes["one"]) == before["one"]

    done = site.play("-e", "rejoin_nodes=gone:one:two", "-vvv")
    assert done.status != 0  # for one was skipped
    assert "gone can't be reached" in done.output and "It was skipped" in done.output
    assert done.recap("gone")["failed"] == 1 and done.recap("one")["failed"] == 0
    for name, node in nodes.items():
        assert snapshot(site.cluster.client, node) == before[name]
        assert site.state(name)["host"]["identity"] == "new"
        assert site.state(name)["host"]["flags"] == {"node-ip": "10.0.0.11"}
        assert site.state(name)["log"][-5:] == ["look", "stop", "reset", "join", "start"]
    assert [site.state(name)["proxy"] for name in nodes] == ["", "cri-resource-manager.service"]
    assert not TOKEN.search(done.output)

    again = site.play("-e", "rejoin_nodes=one", "-e", "rejoin_only_unfinished=true")
    assert again.status == 0, again.output
    assert again.recap("one")["changed"] == 0


def test_a_node_that_refuses_to_come_back_leaves_a_report_and_stops_the_others(site: Site) -> None:
    node = site.node("one", "join")
    site.node("two")
    failed = site.play("-e", "rejoin_nodes=one:two")
    assert failed.status != 0
    told = " ".join(failed.output.split())
    assert f"{node} did not come back. Join: join can't be done" in told
    assert f"kube-system/colocation-rejoin-{node}" in told
    assert "last words of the kubelet" in told
    assert site.state("two")["log"] == []
    assert leftovers(site.cluster.client, node) == [f"colocation-rejoin-{node}"]  # no lock, no token
    site.state("one", breaks=[])
    mended = site.play("--limit", "one")
    assert mended.status == 0, mended.output
    assert leftovers(site.cluster.client, node) == []


def test_a_drain_that_fails_leaves_the_node_as_it_was(site: Site) -> None:
    node = site.node("one")
    held = site.cluster.pod(node, "held", "ReplicaSet", finalizers=["example.com/never"])
    before = snapshot(site.cluster.client, node)
    failed = site.play("-e", "rejoin_nodes=one", "-e", "rejoin_drain_timeout=1")
    assert failed.status != 0
    told = " ".join(failed.output.split())
    assert f"{node} was not rejoined. Drain the node: {node}: pods are still there after 1 s" in told
    assert "pods may come to it as before. Mend that and run again." in told and "stays saved" not in told
    assert snapshot(site.cluster.client, node) == before
    site.cluster.client.patch(held, {"metadata": {"finalizers": None}})


def test_the_node_of_a_host_that_is_switched_off_goes_when_the_user_vouches(site: Site) -> None:
    host = site.cluster.host("off")
    host.sync({"conditions": [{"type": "Ready", "status": "Unknown"}]})
    site.dead("gone")
    mistaken = site.play("-e", "rejoin_nodes=gone", "-e", "rejoin_fenced=true")
    told = " ".join(mistaken.output.split())
    assert mistaken.status != 0
    assert "the API knows no Node gone; name that of this host with rejoin_node_name" in told
    assert "Its Node was deleted" not in told
    names = ["-e", f"rejoin_node_name={host.node}", "-e", "rejoin_nodes=gone"]
    fenced = site.play(*names, "-e", "rejoin_fenced=true")
    assert fenced.status != 0  # it did not rejoin
    assert "Its Node was deleted" in " ".join(fenced.output.split())
    assert leftovers(site.cluster.client, host.node) == [f"colocation-rejoin-{host.node}"]
    nodes = [one["metadata"]["name"] for one in site.cluster.client.items("/api/v1/nodes")]
    assert host.node not in nodes


def test_the_examples_of_the_modules(site: Site) -> None:
    site.node("one")
    tasks = [task for module in (node_rejoin_host, node_rejoin) for task in yaml.safe_load(module.EXAMPLES)]
    text = json.dumps([{"hosts": "one", "gather_facts": False, "tasks": tasks}])
    book = site.place / "examples.yml"
    book.write_text(
        text.replace("/etc/kubernetes/admin.conf", str(site.place / "admin.conf")).replace("control-plane", "cp")
    )
    done = site.play(book=book)
    assert done.status == 0, done.output
    assert done.recap("one")["changed"] == 1  # foretold


def test_nodes_of_the_control_plane_are_refused(site: Site) -> None:
    refused = site.play("-e", "rejoin_nodes=cp")
    assert refused.status != 0
    assert "only workers are rejoined" in " ".join(refused.output.split())
