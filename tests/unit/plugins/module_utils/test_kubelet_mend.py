# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What can be written anew of a kubelet's files, and that it is what a kubelet can use."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import (
    Kubeconfig,
    choose_access,
    parse_document,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import MOST_BYTES, read_files
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_mend import (
    Plan,
    kubeconfig,
    merge_config,
    plan_files,
    wants_config,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.health_node import (
    CONFIG,
    CURRENT,
    DAY,
    NOW,
    HealthNode,
    client_certificate,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made

SERVER = "https://10.9.9.9:6443"
CONF, CA = "etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt"
INSTANCE = (
    "apiVersion: kubelet.config.k8s.io/v1beta1\ncontainerRuntimeEndpoint: unix:///x.sock\nkind: KubeletConfiguration\n"
)
PROXY = f"apiVersion: v1\nclusters:\n- cluster:\n    server: {SERVER}\n  name: default\n"
POD = "var/lib/kubelet/pods/0-1/volumes/kubernetes.io~configmap/kube-proxy/kubeconfig.conf"


@pytest.fixture
def node(tmp_path: Path) -> HealthNode:
    return HealthNode(tmp_path)


def planned(node: HealthNode, server: str = "") -> Plan:
    return plan_files(read_files(str(node.root), NOW), NOW, server)


def test_nothing_is_to_be_done_on_a_healthy_node(node: HealthNode) -> None:
    assert planned(node) == planned(node, SERVER) == Plan((), ())


@pytest.mark.parametrize("place", [POD, "var/lib/kube-proxy/kubeconfig", "var/lib/colocation/credentials/kubeconfig"])
def test_a_lost_kubeconfig_is_made_of_what_is_there(node: HealthNode, place: str) -> None:
    (node.root / CONF).unlink()
    node.write(place, PROXY)
    plan = planned(node)
    ((mending,), left) = plan.mendings, plan.left
    assert (mending.what, mending.path, left) == ("kubeconfig", f"/{CONF}", ())
    access = choose_access([Kubeconfig(parse_document(mending.content, "k"), "k", "/")])
    assert (access.server, access.ca.content) == (SERVER, made.AUTHORITY)
    assert access.certificate.file == access.key.file == f"/{CURRENT}"
    assert yaml.safe_load(mending.content)["current-context"] == "default-context"


def test_the_address_may_come_from_the_caller_and_must_come_from_somewhere(node: HealthNode) -> None:
    (node.root / CONF).unlink()
    assert planned(node).left == (
        "/etc/kubernetes/kubelet.conf is not there, and nothing on the node tells the API server's address",
    )
    node.write(POD, PROXY)
    assert "https://other:6443" in planned(node, "https://other:6443").mendings[0].content


def test_a_node_that_is_joining_is_left_to_its_kubelet(node: HealthNode) -> None:
    (node.root / CONF).unlink()
    (node.root / CURRENT).unlink()
    node.write("etc/kubernetes/bootstrap-kubelet.conf", PROXY)
    (node.root / "var/lib/kubelet/pki/kubelet-client-2026.pem").unlink()
    assert planned(node) == Plan((), ())


def test_without_certificate_nothing_is_invented(node: HealthNode) -> None:
    (node.root / CONF).unlink()
    (node.root / "var/lib/kubelet/pki/kubelet-client-2026.pem").unlink()
    node.write(POD, PROXY)
    plan = planned(node)
    assert plan.mendings == ()
    assert len(plan.left) == 2


def test_the_link_goes_to_what_holds_longest(node: HealthNode) -> None:
    for name, ends in (("a", 10), ("b", 30), ("c", 20), ("old", -1)):
        node.write(
            f"var/lib/kubelet/pki/kubelet-client-{name}.pem", client_certificate(NOW - 40 * DAY, NOW + ends * DAY)
        )
    node.write("var/lib/kubelet/pki/kubelet-client-2026.pem", "")
    ((mending,), _left) = planned(node).mendings, planned(node).left
    assert (mending.what, mending.path) == ("certificate-link", f"/{CURRENT}")
    assert mending.target == "/var/lib/kubelet/pki/kubelet-client-b.pem"


def test_a_certificate_of_another_user_is_no_kubelets(node: HealthNode) -> None:
    node.write("var/lib/kubelet/pki/kubelet-client-2026.pem", "")
    other = made.certificate("kubernetes-admin", NOW - DAY, NOW + DAY) + made.key()
    node.write("var/lib/kubelet/pki/kubelet-client-admin.pem", other)
    assert planned(node).mendings == ()


def test_the_authority_comes_from_the_kubeconfig(node: HealthNode) -> None:
    node.write(CA, "not a certificate")
    (mending,) = planned(node).mendings
    assert (mending.what, mending.path, mending.content) == ("ca-file", f"/{CA}", made.AUTHORITY)
    (node.root / CONF).unlink()
    (node.root / CA).unlink()
    assert "no kubeconfig of the node has it" in " ".join(planned(node, SERVER).left)


def test_both_kubeconfig_and_authority_from_a_neighbour(node: HealthNode) -> None:
    (node.root / CONF).unlink()
    (node.root / CA).unlink()
    data = base64.b64encode(made.AUTHORITY.encode()).decode()
    node.write(POD, PROXY.replace("    server", f"    certificate-authority-data: {data}\n    server"))
    assert [mending.what for mending in planned(node).mendings] == ["kubeconfig", "ca-file"]


def test_a_certificate_in_the_kubeconfig_itself(node: HealthNode) -> None:
    """As kubeadm writes it on a control-plane node; the rotated one takes its place only while it holds."""
    inside = {name: made.coded(text) for name, text in (
        ("client-certificate-data", client_certificate(ends=NOW + 5 * DAY)), ("client-key-data", made.key())
    )}  # fmt: skip
    node.proves(**inside)
    assert read_files(str(node.root), NOW).current.path == f"/{CURRENT}"
    (node.root / CURRENT).unlink()
    files = read_files(str(node.root), NOW)
    assert files.current.ends == NOW + 5 * DAY
    assert plan_files(files, NOW) == Plan((), ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CONFIG, ""),
        ("", "is empty"),
        (CONFIG[:90], "damaged or cut off"),
        ("x" * (MOST_BYTES + 1), "larger than"),
        ('{"kind": "KubeletConfiguration", "x": [1]}', ""),
        ('{"kind": "KubeletConf', "damaged"),
    ],
)
def test_configurations(node: HealthNode, text: str, why: str) -> None:
    node.write("var/lib/kubelet/config.yaml", text)
    said = wants_config(read_files(str(node.root), NOW), True)
    assert why in said and bool(said) == bool(why)


def test_a_doubt_counts_where_the_kubelet_does_not_run(node: HealthNode) -> None:
    node.write("var/lib/kubelet/config.yaml", CONFIG + "x: y: z\n")
    files = read_files(str(node.root), NOW)
    assert wants_config(files, True) == ""
    assert wants_config(files, False).startswith("/var/lib/kubelet/config.yaml line 10: ")


def test_where_kubeadm_did_not_join_only_the_link_is_set(node: HealthNode) -> None:
    pem = {"client-certificate": f"/{CURRENT}", "client-key": f"/{CURRENT}"}
    node.write("var/lib/kubelet/kubeconfig", made.kubeconfig(pem))
    flags = ("--kubeconfig=/var/lib/kubelet/kubeconfig", "--config=/var/lib/kubelet/config.yaml")
    node.kubelet_process("/usr/bin/kubelet", "0::/system.slice/kubelet.service\n", *flags)
    node.write("var/lib/kubelet/pki/kubelet-client-old.pem", client_certificate(NOW - 40 * DAY, NOW - DAY))
    node.link("kubelet-client-old.pem")
    node.write(POD, PROXY)
    (node.root / CA).unlink()
    plan = planned(node)
    assert [mending.what for mending in plan.mendings] == ["certificate-link"]
    (left,) = plan.left
    assert "ca.crt is not there, and kubeadm did not join this node" in left
    (node.root / "var/lib/kubelet/kubeconfig").unlink()
    plan = planned(node)
    assert plan.mendings == ()
    assert "/var/lib/kubelet/kubeconfig is not there, and kubeadm did not join this node" in plan.left[0]


def test_a_program_leaves_nothing_to_mend(node: HealthNode) -> None:
    node.proves(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "/usr/bin/own"})
    (node.root / CURRENT).unlink()
    (node.root / "var/lib/kubelet/pki/kubelet-client-2026.pem").unlink()
    assert planned(node) == Plan((), ())


def test_the_nodes_own_settings_lie_over_the_clusters() -> None:
    merged = merge_config("# the cluster's\n" + CONFIG, INSTANCE)
    assert yaml.safe_load(merged) == yaml.safe_load(CONFIG) | {"containerRuntimeEndpoint": "unix:///x.sock"}
    assert merge_config(CONFIG, "") == CONFIG


KEYS = st.sampled_from(["alpha", "betaGamma", "evictionHard", "kind", "z9"])
VALUES = st.recursive(
    st.integers()
    | st.booleans()
    | st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CONFIGS = st.dictionaries(KEYS, VALUES, min_size=1)


@given(CONFIGS, CONFIGS)
def test_any_two_configurations_merge_key_by_key(cluster: dict[str, object], instance: dict[str, object]) -> None:
    merged = yaml.safe_load(merge_config(yaml.safe_dump(cluster), yaml.safe_dump(instance)))
    own = {key: value for key, value in instance.items() if key not in ("apiVersion", "kind")}
    assert (merged or {}) == cluster | own


@given(st.text(max_size=60), st.text(max_size=60))
def test_merging_anything_is_no_traceback(cluster: str, instance: str) -> None:
    merge_config(cluster, instance)


def test_a_kubeconfig_is_kubeadms() -> None:
    document = yaml.safe_load(kubeconfig(SERVER, made.AUTHORITY, "/a b.pem"))
    assert document["users"] == [
        {"name": "default-auth", "user": {"client-certificate": "/a b.pem", "client-key": "/a b.pem"}}
    ]
