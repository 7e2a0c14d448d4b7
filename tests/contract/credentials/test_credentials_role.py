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
    made = ApiServer(tmp_path_factory.mktemp("api"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


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
            "get", "sa,clusterrole,clusterrolebinding", "-A", "-l", "app.kubernetes.io/managed-by=colocation.kubernetes",
            "-o", "name",
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
    assert (told.status, told.changed) == (0, 1)
    assert not deployment.node.state_dir.exists()
    done = deployment.run("kubelet", "--tags=credentials")
    assert (done.status, done.changed, deployment.context()) == (0, 1, "kubelet")
    assert deployment.run().changed == 0
    gone = deployment.uninstall()
    assert (gone.status, gone.changed) == (0, 1)
    assert not deployment.node.state_dir.exists()
    assert (deployment.uninstall().status, deployment.uninstall().changed) == (0, 0)


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
    deployment.node.account(state="absent")  # somebody revoked it
    mended = deployment.run("minted")
    assert mended.status == 0, mended.output
    assert deployment.token() != first
    for run in (told, done, again, mended):
        assert first not in run.output
        assert deployment.token() not in run.output
    back = deployment.run("kubelet")
    assert (back.status, deployment.context(), deployment.accounts()) == (0, "kubelet", [])
    assert deployment.run("kubelet").changed == 0
    assert deployment.run("minted").status == 0
    gone = deployment.uninstall()
    assert (gone.status, deployment.accounts()) == (0, [])
    assert not deployment.node.state_dir.exists()
    assert (deployment.uninstall().status, deployment.uninstall().changed) == (0, 0)


def test_minted_with_nothing_but_a_kubeconfig_on_the_controller(deployment: Deployment) -> None:
    deployment.site = Site(deployment.site.directory, control_plane=False)
    lost = deployment.run("minted")
    assert lost.status != 0
    assert "Name a kubeconfig on the controller (credentials_controller_kubeconfig)" in lost.problem
    done = deployment.run("minted", controller_kubeconfig=str(deployment.node.admin_conf))
    assert (done.status, deployment.context()) == (0, "minted")
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
    assert deployment.run("minted").status == 0
    assert deployment.run("minted", namespace="default").status == 0
    assert any(name.startswith("serviceaccount") for name in deployment.accounts())
    assert len(deployment.accounts()) == 3
    assert deployment.run("minted", namespace="default").changed == 0


def test_the_administrators_copy_warns_and_prints_no_key(deployment: Deployment) -> None:
    told, done, again = (deployment.run("admin", *words) for words in (["--check"], [], []))
    assert [run.status for run in (told, done, again)] == [0, 0, 0]
    assert (told.changed, done.changed, again.changed, deployment.context()) == (1, 1, 0, "admin")
    for run in (told, done, again):
        assert "whoever becomes root here owns the cluster" in run.output
        assert not any(line in run.output for line in key_lines(deployment.node.admin_conf))
    readable = [path for path in deployment.node.state_dir.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert readable == []


@pytest.mark.parametrize(
    ("source", "more", "said"),
    [
        (
            "admin",
            {"admin_kubeconfig": "/nowhere/admin.conf"},
            "On master: the kubeconfig /nowhere/admin.conf can't be read",
        ),
        ("file", {}, "credentials_file must name a kubeconfig on the controller"),
        (
            "file",
            {"file": "/nowhere/agents"},
            "On localhost: the kubeconfig /nowhere/agents can't be read: No such file",
        ),
        (
            "kubelet",
            {"kubelet_kubeconfig": "/nowhere/kubelet.conf"},
            "the kubeconfig /nowhere/kubelet.conf can't be read",
        ),
        ("minted", {"admin_kubeconfig": "/nowhere/admin.conf"}, "/nowhere/admin.conf can't be read"),
        ("kubelet", {"server": "https://127.0.0.1:1"}, "credentials_server names another address"),
    ],
)
def test_errors_say_what_is_missing(deployment: Deployment, source: str, more: dict[str, str], said: str) -> None:
    run = deployment.run(source, **more)
    assert run.status != 0
    assert said in run.problem, run.problem
    assert not deployment.node.kubeconfig.exists()
