# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agents' kubeconfig: what we write, the agents read, and so does a node without PyYAML."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils import _kube_config
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import (
    embedded,
    has_secret,
    render,
    require_usable,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import Kubeconfig, choose_access
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.credentials_made import kubeconfig
from colocation.common.kube_access import from_kubeconfig

PEM = "/var/lib/kubelet/pki/kubelet-client-current.pem"
BY_REFERENCE = Access(
    "https://10.0.0.1:6443", "here", Material(content="CA"), certificate=Material(PEM), key=Material(PEM)
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)
PATHS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), min_size=1).map("/{}".format)
MATERIALS = st.one_of(st.builds(Material, PATHS), TEXTS.map(lambda text: Material(content=text)))


def parsed(text: str) -> Access:
    return choose_access([Kubeconfig(_kube_config.parse_document(text, "it"), "it", "/etc")])


@pytest.mark.parametrize("has_yaml", [True, False])
@given(authority=MATERIALS, certificate=MATERIALS, key=MATERIALS)
def test_what_is_written_is_read_by_agents_and_modules(
    has_yaml: bool, authority: Material, certificate: Material, key: Material
) -> None:
    access = replace(BY_REFERENCE, ca=authority, certificate=certificate, key=key, server_name="kubernetes")
    text = render(access, "file")
    with pytest.MonkeyPatch.context() as patch:
        if not has_yaml:
            patch.setattr(_kube_config, "find_pyyaml", lambda: None)
        ours = parsed(text)
    theirs = from_kubeconfig(text, "/etc/it")
    for mine, read, seen in (
        (access.ca, ours.ca, theirs.ca),
        (access.certificate, ours.certificate, theirs.certificate),
        (access.key, ours.key, theirs.key),
    ):
        assert (read.file, read.content) == (mine.file, mine.content)
        assert (seen.file, seen.content) == (mine.file, mine.content)
    assert (ours.server, ours.server_name) == (access.server, "kubernetes")
    assert (theirs.server, theirs.server_name) == (access.server, "kubernetes")


def test_a_token_inside_and_beside() -> None:
    bare = replace(BY_REFERENCE, certificate=Material(), key=Material())
    assert (
        from_kubeconfig(render(replace(bare, token=Material(content="abc\n")), "minted"), "/a").token.content == "abc"
    )
    assert from_kubeconfig(render(replace(bare, token=Material("/run/token")), "file"), "/a").token.file == "/run/token"


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}, {}, "from the program aws"),
        ({"username": "a", "password": "hidden"}, {}, "a user name and password"),
        ({}, {}, "neither a client certificate nor a token"),
        ({"client-certificate": PEM}, {}, "belong together"),
        ({"token": "hidden", "as": "admin"}, {}, "impersonates"),
        ({"token": "hidden"}, {"insecure-skip-tls-verify": True}, "does not check the server's certificate"),
        ({"token": "hidden"}, {"proxy-url": "http://proxy:3128"}, "goes through a proxy"),
        ({"token": "hidden"}, {"server": "http://10.0.0.1"}, "is not an https:// address"),
        ({"token": "hidden"}, {"server": "10.0.0.1:6443"}, "is not an https:// address"),
    ],
)
def test_what_agents_can_not_use_is_refused_by_name(
    user: dict[str, object], cluster: dict[str, object], said: str
) -> None:
    with pytest.raises(AccessError, match=said) as caught:
        require_usable(parsed(kubeconfig(user, **cluster)))
    assert "hidden" not in str(caught.value)


def test_files_are_taken_along() -> None:
    whole = embedded(BY_REFERENCE, lambda material: f"content of {material.file}")
    assert (whole.certificate, whole.ca) == (Material(content=f"content of {PEM}"), Material(content="CA"))
    assert (has_secret(BY_REFERENCE), has_secret(whole)) == (False, True)
    assert has_secret(replace(BY_REFERENCE, token=Material(content="t")))
    assert not has_secret(replace(BY_REFERENCE, token=Material("/t")))
