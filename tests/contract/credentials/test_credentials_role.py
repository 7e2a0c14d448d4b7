# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The role credentials, as a playbook runs it: sources, switching, check mode, errors, and what of it is printed."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.credentials.node_double import NodeDouble
from ansible_collections.colocation.kubernetes.tests.contract.credentials.play import Run, Site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the made hosts are this machine as root")
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One version will do here: what differs between them is tested with the modules."""
    with ApiServer(tmp_path_factory.mktemp("api")) as made:
        yield made


class Deployment:
    """A node, and the play that gives it credentials."""

    def __init__(self, server: ApiServer, directory: Path) -> None:
        self.node = NodeDouble(server, directory, f"worker{next(numbers)}")
        self.site = Site(directory / "site")
        self.variables = {
            "state_dir": str(self.node.state_dir),
            "kubelet_kubeconfig": str(self.node.kubelet_conf),
            "admin_kubeconfig": str(self.node.admin_conf),
        }

    def run(self, source: str = "kubelet", *arguments: str, **more: object) -> Run:
        return self.site.run("site", *arguments, **{**self.variables, "source": source, **more})

    def uninstall(self, **more: object) -> Run:
        return self.site.run("uninstall", **{**self.variables, **more})

    def context(self) -> str:
        return self.node.kubeconfig.read_text().rpartition("current-context: ")[2].strip()

    def token(self) -> str:
        return self.node.kubeconfig.read_text().partition('token: "')[2].partition('"')[0]

    def accounts(self) -> list[str]:
        listed = self.node.server.kubectl(
            "get", "sa,clusterrole,clusterrolebinding", "-A", "-o", "name",
            "-l", "app.kubernetes.io/managed-by=colocation.kubernetes",
        )  # fmt: skip
        return [name for name in listed.split() if name.endswith(self.node.name)]


@pytest.fixture
def deployment(server: ApiServer, tmp_path: Path) -> Deployment:
    return Deployment(server, tmp_path)


def key_lines(path: Path) -> list[str]:
    """What must never be printed of a kubeconfig."""
    section = json.loads(path.read_text())["users"][0]["user"]
    return [section["client-key-data"], section["client-key-data"][200:260]]


def test_the_kubelets_own_then_nothing_then_gone(deployment: Deployment) -> None:
    told = deployment.run("kubelet", "--check", "--tags=credentials")
    assert (told.status, told.changed) == (0, 1), told.output
    assert not deployment.node.state_dir.exists()
    done = deployment.run("kubelet", "--tags=credentials")
    assert (done.status, done.changed, deployment.context()) == (0, 1, "kubelet")
    assert deployment.run().changed == 0
    gone = [deployment.uninstall() for dummy in range(2)]
    assert [(run.status, run.changed) for run in gone] == [(0, 1), (0, 0)]
    assert not deployment.node.state_dir.exists()


def test_minted_is_renewed_only_when_it_must_and_leaves_nothing(deployment: Deployment) -> None:
    told = deployment.run("minted", "--check", "--tags=credentials")
    assert told.status == 0, told.output
    assert told.changed > 0
    assert (deployment.accounts(), deployment.node.state_dir.exists()) == ([], False)
    done = deployment.run("minted", "--tags=credentials")
    assert done.status == 0, done.output
    assert (deployment.context(), len(deployment.accounts())) == ("minted", 3)
    first = deployment.token()
    again = deployment.run("minted")
    assert (again.changed, deployment.token()) == (0, first)
    deployment.node.account(state="absent")  # somebody revoked it; the API server may take its token a while longer
    mended = deployment.run("minted")
    assert mended.status == 0, mended.output
    second = deployment.token()
    assert second != first
    back = deployment.run("kubelet")
    assert (back.status, deployment.context(), deployment.accounts()) == (0, "kubelet", [])
    for run in (told, done, again, mended, back):
        assert not any(token in run.output for token in (first, second, second.rpartition(".")[2]))
    gone = deployment.uninstall()
    assert (gone.status, deployment.node.state_dir.exists()) == (0, False)


def test_minted_with_nothing_but_a_kubeconfig_on_the_controller(deployment: Deployment) -> None:
    deployment.site = Site(deployment.site.directory, control_plane=False)
    lost = deployment.run("minted")
    assert lost.status != 0
    assert "Name a kubeconfig on the controller (credentials_controller_kubeconfig)" in lost.problem
    done = deployment.run("minted", controller_kubeconfig=str(deployment.node.admin_conf))
    assert (done.status, deployment.context()) == (0, "minted"), done.output
    stuck = deployment.uninstall()
    assert stuck.status != 0
    assert f"named colocation-agent-{deployment.node.name}" in stuck.problem
    assert deployment.node.kubeconfig.exists()
    assert deployment.uninstall(leave_account=True).status == 0
    assert (deployment.node.state_dir.exists(), len(deployment.accounts())) == (False, 3)


def test_a_run_that_ended_before_the_account_was_used_is_undone(deployment: Deployment) -> None:
    """The note is on the node before the account is in the API, so the uninstall knows of it."""
    ended = deployment.run("minted", token_days=2_000_000_000)  # refused by the API after the account was made
    assert ended.status != 0
    assert "expirationSeconds" in ended.problem
    assert (len(deployment.accounts()), deployment.node.kubeconfig.exists()) == (3, False)
    assert deployment.uninstall().status == 0
    assert (deployment.accounts(), deployment.node.state_dir.exists()) == ([], False)


def test_another_namespace_takes_the_old_account_along(deployment: Deployment) -> None:
    deployment.node.server.kubectl("create", "namespace", "agents")
    for namespace in ("kube-system", "agents"):
        assert deployment.run("minted", namespace=namespace).status == 0
        assert len(deployment.accounts()) == 3
    assert f"system:serviceaccount:agents:colocation-agent-{deployment.node.name}" in deployment.node.info()["user"]


def test_the_administrators_copy_warns_and_prints_no_key(deployment: Deployment) -> None:
    runs = [deployment.run("admin", *words) for words in (["--check"], [])]
    assert [(run.status, run.changed) for run in runs] == [(0, 1), (0, 1)]
    assert deployment.context() == "admin"
    for run in runs:
        assert "whoever becomes root here owns the cluster" in run.output
        assert not any(line in run.output for line in key_lines(deployment.node.admin_conf))
    kept = [path for path in deployment.node.state_dir.rglob("*") if path.is_file()]
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
    key = key_lines(deployment.node.admin_conf)[1]
    assert [path.name for path in kept if key in path.read_text()] == ["kubeconfig"]


@pytest.mark.parametrize(
    ("source", "more", "said"),
    [
        ("admin", {"admin_kubeconfig": "/no/conf"}, "On master: the kubeconfig /no/conf can't be read: No such file"),
        ("file", {"file": "/nowhere/conf"}, "On localhost: the kubeconfig /nowhere/conf can't be read: No such file"),
        ("kubelet", {"server": "https://127.0.0.1:1"}, "credentials_server names another address"),
    ],
)
def test_errors_say_what_is_missing(deployment: Deployment, source: str, more: dict[str, str], said: str) -> None:
    run = deployment.run(source, **more)
    assert run.status != 0
    assert said in run.problem, run.problem
    assert not deployment.node.kubeconfig.exists()
