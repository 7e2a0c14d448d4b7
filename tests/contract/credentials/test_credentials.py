# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The credentials' modules and the agents' own client against real API servers."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import binary, kubernetes
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.breakages import CREDENTIALS_PROGRAM
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer
from ansible_collections.colocation.kubernetes.tests.contract.credentials.node_double import NodeDouble
from colocation.common.kube_api import ApiError, KubeApi, kubeconfig

numbers = itertools.count(1)
OBJECTS = "serviceaccounts,clusterroles,clusterrolebindings"
OURS = "app.kubernetes.io/managed-by=colocation.kubernetes"


@pytest.fixture
def node(server: ApiServer, tmp_path: Path) -> NodeDouble:
    """A node of which the server has not heard before."""
    return NodeDouble(server, tmp_path, f"node{next(numbers)}")


def agent(node: NodeDouble) -> KubeApi:
    """The client that the agents use, with what the role gave them."""
    return KubeApi(kubeconfig(str(node.kubeconfig)), timeout=5, sleep=lambda _seconds: None)


def user(api: KubeApi) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found: str = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]["username"]
    return found


def objects(node: NodeDouble) -> list[str]:
    """Kind and name of what was made in the API for this node."""
    listed = node.server.kubectl("get", OBJECTS, "-A", "-l", OURS, "-o", "name").split()
    return sorted(name for name in listed if name.endswith(f"-{node.name}"))


def test_the_kubelets_own_needs_no_second_run(node: NodeDouble) -> None:
    told = node.give(check_mode=True)
    assert not node.state_dir.exists()
    done = node.give()
    assert (told["changed"], told["diff"]) == (done["changed"], done["diff"]) == (True, done["diff"])
    assert done["user"] == f"system:node:{node.name}"
    assert (oct(node.kubeconfig.stat().st_mode), oct(node.kubeconfig.parent.stat().st_mode)) == ("0o100600", "0o40700")
    assert "PRIVATE KEY" not in node.kubeconfig.read_text()
    api = agent(node)
    assert user(api) == f"system:node:{node.name}"
    assert not node.give()["changed"]
    assert node.info()["accepted"] is True


def test_the_agents_follow_a_rotation(node: NodeDouble) -> None:
    """Behind the link comes a certificate of another name, so that the API server can tell which one it was shown."""
    node.give()
    api = agent(node)
    assert user(api) == f"system:node:{node.name}"
    node.rotate()
    assert not node.give()["changed"]
    assert user(api) == f"system:node:{node.name}"
    other = node.certificates / "other.pem"
    other.write_text("".join(node.server.user("system:node:somebody-else", "system:nodes")))
    link = node.certificates / "fresh"
    link.symlink_to(other)
    os.replace(link, node.current)
    assert user(api) == "system:node:somebody-else"


def test_a_key_inside_the_kubelets_kubeconfig_is_not_copied(node: NodeDouble) -> None:
    config = node.server.kubeconfig(f"system:node:{node.name}", "system:nodes")
    node.kubelet_conf.write_text(json.dumps(config))
    node.kubelet_conf.chmod(0o600)
    node.current.unlink()
    done = node.give()
    assert done["changed"]
    assert os.readlink(node.kubeconfig) == str(node.kubelet_conf)
    assert user(agent(node)) == f"system:node:{node.name}"
    node.rotate()  # the kubelet began to rotate: the newer certificate is taken, by reference
    assert node.give()["changed"]
    assert not node.kubeconfig.is_symlink()
    assert str(node.current) in node.kubeconfig.read_text()
    assert not node.give()["changed"]


def test_a_kubelet_with_a_program(node: NodeDouble) -> None:
    """The API server tells the Node's name, and a minted account is what the agents can have."""
    pem = Path(node.rotate())
    program = node.directory / "kubelet-credentials"
    program.write_text(CREDENTIALS_PROGRAM.replace(f"/var/lib/kubelet/pki/{node.current.name}", f"{node.directory}/p"))
    program.chmod(0o755)
    pem.rename(node.directory / "p")
    node.current.unlink()
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    node.write(node.kubelet_conf, {"exec": section})
    told = node.info()
    assert (told["node"], told["kubelet_kubeconfig"]) == (node.name, str(node.kubelet_conf))
    refused = node.give()["msg"]
    assert f"from the program {program}, which the agents don't run" in refused and "minted" in refused
    done = node.mint()
    assert (done["changed"], done["node"]) == (True, node.name)
    assert user(agent(node)) == f"system:serviceaccount:kube-system:colocation-agent-{node.name}"


def test_a_minted_account_is_the_nodes_own(node: NodeDouble) -> None:
    told = node.account(check_mode=True)
    assert objects(node) == []
    made = node.account()
    assert (told["changed"], told["diff"]) == (made["changed"], made["diff"])
    assert [name.partition("/")[0].partition(".")[0] for name in objects(node)] == [
        "clusterrole", "clusterrolebinding", "serviceaccount",
    ]  # fmt: skip
    assert not node.account()["changed"]
    done = node.give(source="minted", token=node.token())
    assert done["user"] == f"system:serviceaccount:kube-system:colocation-agent-{node.name}"
    assert 89 < done["days_left"] <= 90
    assert user(agent(node)) == done["user"]
    assert not node.give(source="minted")["changed"]
    seen = node.info()
    assert (seen["source"], seen["accepted"], seen["renew"]) == ("minted", True, False)
    assert node.info(renew_days=120)["renew"] is False  # half of its time is still ahead
    owners = json.loads(node.server.kubectl("get", "clusterrole", f"colocation-agent-{node.name}", "-o", "json"))
    assert owners["metadata"]["ownerReferences"][0]["kind"] == "Node"


def test_a_role_that_somebody_changed_is_mended(node: NodeDouble) -> None:
    node.mint()
    name = f"colocation-agent-{node.name}"
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    node.server.kubectl("patch", "clusterrole", name, "--type=merge", "-p", json.dumps({"rules": [rule]}))
    wide = node.account(check_mode=True)
    assert wide["changed"]
    assert '"*"' in wide["diff"]["before"]
    node.account()
    assert not node.account()["changed"]
    node.server.kubectl("delete", "clusterrolebinding", name)
    wait_until("the right to be gone", lambda: "msg" in node.give(source="minted", timeout=1), 20)
    lost = node.give(source="minted", timeout=1)
    assert "may not: get nodes (to see its own Node); patch nodes/status" in lost["msg"]
    assert "the next run with the tag credentials mends it" in lost["msg"]
    assert node.info()["accepted"] is True


def test_a_token_that_ended_or_was_revoked_is_told_and_renewed(node: NodeDouble) -> None:
    node.mint()
    before = node.kubeconfig.read_bytes()
    account = json.loads(
        node.server.kubectl("-n", "kube-system", "get", "sa", f"colocation-agent-{node.name}", "-o", "json")
    )
    ended = node.server.account_token("kube-system", account["metadata"]["name"], account["metadata"]["uid"], -60)
    refused = node.give(source="minted", token=ended)
    assert "ended on " in refused["msg"]
    assert "The next run with the tag credentials mints another" in refused["msg"]
    assert node.kubeconfig.read_bytes() == before
    text = before.decode()
    token = text.partition('token: "')[2].partition('"')[0]
    node.kubeconfig.write_text(text.replace(token, ended))
    seen = node.info()
    assert (seen["accepted"], seen["renew"]) == (False, True)
    with pytest.raises(ApiError) as caught:
        user(agent(node))
    assert caught.value.status == 401
    assert node.give(source="minted", token=node.token())["changed"]
    assert user(agent(node)) == f"system:serviceaccount:kube-system:colocation-agent-{node.name}"
    assert node.account(state="absent")["changed"]
    wait_until("the token to end with its account", lambda: node.info()["accepted"] is False, 30)
    assert "401" in node.give(source="minted")["msg"]


def test_an_account_goes_and_goes_again(node: NodeDouble) -> None:
    node.account()
    told = node.account(check_mode=True, state="absent")
    assert len(objects(node)) == 3
    assert node.account(state="absent")["diff"] == told["diff"]
    assert objects(node) == []
    assert not node.account(state="absent")["changed"]


def test_what_is_not_ours_is_left_alone(node: NodeDouble) -> None:
    name = f"colocation-agent-{node.name}"
    node.server.kubectl("create", "clusterrole", name, "--verb=get", "--resource=pods")
    for state in ("present", "absent"):
        assert f"ClusterRole {name} is there already and not ours" in node.account(state=state)["msg"]
    assert node.server.kubectl("get", "clusterrole", name, "-o", "name").strip()


def test_an_account_goes_with_its_node(node: NodeDouble) -> None:
    """Kubernetes' own garbage collector sees to it."""
    node.mint()
    server = node.server
    program = binary(kubernetes(server.minor), "kube-controller-manager")
    with (node.directory / "collector.log").open("wb") as log:
        collector = subprocess.Popen(
            [
                str(program), f"--kubeconfig={node.admin_conf}", "--controllers=garbage-collector-controller",
                "--leader-elect=false", "--secure-port=0",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        assert len(objects(node)) == 3
        server.kubectl("delete", "node", node.name)
        explain = (node.directory / "collector.log").read_text
        wait_until("the account to go", lambda: objects(node) == [], 90, explain)
        wait_until("its token to end", lambda: node.info()["accepted"] is False, 30)
    finally:
        collector.terminate()
        collector.wait(30)


def test_an_account_for_no_node_is_refused(node: NodeDouble) -> None:
    assert "the API knows no Node 'nobody'" in node.account(node="nobody")["msg"]


def test_the_administrators_comes_with_a_warning(node: NodeDouble) -> None:
    done = node.give(source="admin", kubeconfig=node.read(node.admin_conf))
    assert done["changed"]
    assert "whoever becomes root here owns the cluster" in done["warnings"][0]
    assert user(agent(node)) == "admin"
    assert secrets_in(done, node.admin_conf) == []
    again = node.give(source="admin", kubeconfig=node.read(node.admin_conf))
    assert (again["changed"], len(again["warnings"])) == (False, 1)


def test_a_file_with_too_few_rights_is_refused(node: NodeDouble) -> None:
    poor = node.directory / "poor.conf"
    poor.write_text(json.dumps(node.server.kubeconfig("poor", "nobody")))
    refused = node.give(source="file", kubeconfig=node.read(poor))
    assert "poor may not: get nodes" in refused["msg"]
    assert "docs/security-model.md" in refused["msg"]
    assert not node.kubeconfig.exists()


def test_a_file_from_paths_is_made_whole(node: NodeDouble) -> None:
    """As the account's of another tool: the certificate beside the kubeconfig."""
    (node.directory / "agents.pem").write_text("".join(node.server.user(f"system:node:{node.name}", "system:nodes")))
    split = node.directory / "agents.conf"
    node.write(split, {"client-certificate": "agents.pem", "client-key": "agents.pem"})
    assert node.give(source="file", kubeconfig=node.read(split))["changed"]
    (node.directory / "agents.pem").unlink()
    assert user(agent(node)) == f"system:node:{node.name}"


def test_what_stood_before_stays_when_the_api_is_away(node: NodeDouble) -> None:
    node.give()
    before = node.kubeconfig.read_bytes()
    admin = node.read(node.admin_conf)
    node.server.kill()
    try:
        failed = node.give(source="admin", kubeconfig=admin)
        assert node.server.server in failed["msg"]
        assert "What stood before stays." in failed["msg"]
        assert node.kubeconfig.read_bytes() == before
        seen = node.info()
        assert (seen["exists"], seen["accepted"], seen["renew"]) == (True, None, False)
        assert node.give(validate=False)["changed"] is False
    finally:
        node.server.start()
    assert not node.give()["changed"]


def secrets_in(answer: dict[str, Any], config: Path) -> list[str]:
    """Which lines of a kubeconfig's key are in what a module printed."""
    user_section = json.loads(config.read_text())["users"][0]["user"]
    return [value for name, value in user_section.items() if value in json.dumps(answer)]
