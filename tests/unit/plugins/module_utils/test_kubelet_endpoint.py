# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The places where a kubelet is told its runtime, of older and newer layouts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_endpoint import (
    EndpointError,
    Place,
    places,
    plain,
    said,
    switched,
    taken_back,
    url,
    with_endpoint,
    without_endpoint,
)

OURS = "unix:///var/run/cri-resmgr/cri-resmgr.sock"
CONTAINERD = "unix:///run/containerd/containerd.sock"
FLAGS = 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/containerd/containerd.sock --pod-infra=p:3.9"\n'
CONFIG = f"cgroupDriver: systemd\ncontainerRuntimeEndpoint: {CONTAINERD}\nkind: KubeletConfiguration\n"
DROP_IN = f"[Service]\nEnvironment='KUBELET_EXTRA_ARGS=--container-runtime-endpoint={CONTAINERD}'\n"
SILENT = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nlogging:\n  verbosity: 0\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (OURS, "/run/cri-resmgr/cri-resmgr.sock"),
        ("/var/run/cri-resmgr/cri-resmgr.sock", "/run/cri-resmgr/cri-resmgr.sock"),
        ("unix:/run/x", "/run/x"),
        (" /run//x/ ", "/run/x"),
        ("", ""),
    ],
)
def test_one_socket_is_written_in_many_ways(text: str, path: str) -> None:
    assert plain(text) == path
    assert plain(url(path)) == path or not path


@pytest.mark.parametrize(
    ("text", "kind", "endpoint"),
    [
        (FLAGS, "flags", CONTAINERD),
        ("KUBELET_EXTRA_ARGS='--v=2 --container-runtime-endpoint /run/c.sock'\n", "flags", "/run/c.sock"),
        ('[Service]\nEnvironment="A=--container-runtime-endpoint=/run/c.sock"\n', "flags", "/run/c.sock"),
        ("# --container-runtime-endpoint=/run/c.sock\nKUBELET_EXTRA_ARGS=\n", "flags", ""),
        ("A=--container-runtime-endpoint=/a --container-runtime-endpoint=/b", "flags", "/b"),
        ("KUBELET_EXTRA_ARGS=--image-service-endpoint=/run/c.sock", "flags", ""),
        (CONFIG, "config", CONTAINERD),
        (SILENT, "config", ""),
        ('containerRuntimeEndpoint: ""\n', "config", ""),
        ("containerRuntimeEndpoint: '/run/c.sock'  # here\n", "config", "/run/c.sock"),
        ("# containerRuntimeEndpoint: /run/c.sock\n", "config", ""),
        (json.dumps({"containerRuntimeEndpoint": "/run/c.sock"}), "config", "/run/c.sock"),
        ("", "config", ""),
    ],
)
def test_what_a_text_says(text: str, kind: str, endpoint: str) -> None:
    assert said(text, kind) == endpoint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (FLAGS, "flags"),
        ("KUBELET_EXTRA_ARGS='--v=2 --container-runtime-endpoint /run/c.sock'\n", "flags"),
        ('[Service]\n# keep\nEnvironment="A=--container-runtime-endpoint=/run/c.sock"\n', "flags"),
        (CONFIG, "config"),
        (SILENT, "config"),
        (SILENT.rstrip("\n"), "config"),
        ('containerRuntimeEndpoint: ""\nkind: x\n', "config"),
        ("'containerRuntimeEndpoint': '/run/c.sock'  # here\n", "config"),
        (json.dumps({"kind": "KubeletConfiguration"}), "config"),
        ("", "config"),
    ],
)
def test_only_the_endpoint_changes(text: str, kind: str) -> None:
    after = with_endpoint(text, kind, OURS)
    assert said(after, kind) == OURS
    assert with_endpoint(after, kind, OURS) == after
    if not text.startswith("{"):
        kept = [line for line in text.splitlines() if "container" not in line.lower()]
        assert [line for line in after.splitlines() if "container" not in line.lower()] == kept


def test_a_flag_in_a_comment_stays_as_it_is() -> None:
    text = f"# was --container-runtime-endpoint=/old\n{FLAGS}"
    assert with_endpoint(text, "flags", OURS).startswith("# was --container-runtime-endpoint=/old\n")


@pytest.mark.parametrize(
    "text", ["kind: a\n---\nkind: b\n---\n", "x:\n  containerRuntimeEndpoint: /run/c\n", "{", "kind: a\n...\n"]
)
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        with_endpoint(text, "config", OURS)


@pytest.mark.parametrize("text", [CONFIG, SILENT, json.dumps({"kind": "x"}, indent=2) + "\n", FLAGS])
def test_taking_back_gives_the_original(text: str) -> None:
    place = Place("x", "flags" if text is FLAGS else "config", True)
    assert taken_back(switched(text, place, OURS), place, OURS, text, CONTAINERD) == text


def test_taking_back_leaves_what_is_not_ours() -> None:
    place = Place("x", "config", True)
    other = CONFIG.replace("containerd/containerd", "crio/crio")
    assert taken_back(other, place, OURS, SILENT, CONTAINERD) == other


def test_a_file_that_was_written_anew_gets_the_runtimes_endpoint() -> None:
    place = Place("x", "config", True)
    assert (
        said(taken_back(with_endpoint(SILENT, "config", OURS), place, OURS, None, CONTAINERD), "config") == CONTAINERD
    )
    ours_before = with_endpoint(SILENT, "config", OURS)  # a record that was lost in between
    assert said(taken_back(ours_before, place, OURS, ours_before, CONTAINERD), "config") == CONTAINERD


def test_what_was_edited_meanwhile_stays() -> None:
    place = Place("x", "config", True)
    now = switched(SILENT, place, OURS) + "maxPods: 50\n"
    assert taken_back(now, place, OURS, SILENT, CONTAINERD) == SILENT + "maxPods: 50\n"


LAYOUTS = {
    "1.24, flags only": (
        {"/var/lib/kubelet/kubeadm-flags.env": FLAGS, "/var/lib/kubelet/config.yaml": SILENT}, (1, 24),
        ["/var/lib/kubelet/kubeadm-flags.env"],
    ),
    "1.30, flag over the configuration": (
        {"/var/lib/kubelet/kubeadm-flags.env": FLAGS, "/var/lib/kubelet/config.yaml": CONFIG}, (1, 30),
        ["/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/config.yaml"],
    ),
    "1.36, configuration and the node's own": (
        {"/var/lib/kubelet/kubeadm-flags.env": 'KUBELET_KUBEADM_ARGS=""\n', "/var/lib/kubelet/config.yaml": CONFIG,
         "/var/lib/kubelet/instance-config.yaml": CONFIG}, (1, 36),
        ["/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml"],
    ),
    "1.36, a drop-in of the administrator": (
        {"/etc/systemd/system/kubelet.service.d/20.conf": DROP_IN,
         "/var/lib/kubelet/config.yaml": SILENT}, (1, 36),
        ["/etc/systemd/system/kubelet.service.d/20.conf", "/var/lib/kubelet/config.yaml"],
    ),
    "1.36, a drop-in of the configuration": (
        {"/var/lib/kubelet/config.yaml": CONFIG, "/etc/kubernetes/kubelet.conf.d/9.conf": CONFIG,
         "/etc/kubernetes/kubelet.conf.d/8.conf": SILENT}, (1, 36),
        ["/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf.d/9.conf"],
    ),
}  # fmt: skip
CONFIGS = [
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.conf.d/8.conf",
    "/etc/kubernetes/kubelet.conf.d/9.conf",
]
FLAG_FILES = [
    "/var/lib/kubelet/kubeadm-flags.env",
    "/etc/default/kubelet",
    "/etc/systemd/system/kubelet.service.d/20.conf",
]


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_has_its_places(name: str) -> None:
    texts, version, expected = LAYOUTS[name]
    found = places(texts.get, CONFIGS, "/var/lib/kubelet/instance-config.yaml", FLAG_FILES, version)
    assert [place.path for place in found] == expected
    after = {place.path: switched(texts[place.path], place, OURS) for place in found}
    assert {said(after[place.path], place.kind) for place in found} == {OURS}
    back = {place.path: taken_back(after[place.path], place, OURS, texts[place.path], CONTAINERD) for place in found}
    assert back == {path: texts[path] for path in expected}


def test_an_old_kubelet_that_is_told_nothing_is_refused() -> None:
    with pytest.raises(EndpointError, match="before 1.27"):
        places({"/var/lib/kubelet/config.yaml": SILENT}.get, CONFIGS, "/i", FLAG_FILES, (1, 26))


@given(st.text(), st.sampled_from(["config", "flags"]))
def test_any_text_is_changed_and_taken_back_or_refused(text: str, kind: str) -> None:
    place = Place("x", kind, kind == "config")
    try:
        after = switched(text, place, OURS)
    except EndpointError:
        return
    if said(after, kind) and not text.lstrip().startswith("{"):
        assert taken_back(after, place, OURS, text, CONTAINERD).rstrip("\n") == text.rstrip("\n")
    assert without_endpoint(text, "flags") == text
