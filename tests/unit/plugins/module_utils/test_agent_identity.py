# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which identity is taken, when it is too old, and what is said of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import (
    ROTATED,
    CredentialsError,
    Identity,
    days_left,
    describe,
    given_identity,
    growing_old,
    kubelets_identity,
    minted_identity,
    require_time,
    validity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import Validity
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made

DAY = 86400
USER = "system:node:w1"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.conf"


def inside(begins: float, ends: float) -> dict[str, object]:
    pem = made.certificate(USER, begins, ends)
    return {"client-certificate-data": made.coded(pem), "client-key-data": made.coded(made.key())}


def test_the_kubelets_paths_are_taken_over(conf: Path) -> None:
    conf.write_text(made.kubeconfig({"client-certificate": "pki/a.pem", "client-key": "pki/a.key"}))
    identity = kubelets_identity(str(conf), "/nowhere")
    assert (identity.access.certificate.file, identity.link) == (str(conf.parent / "pki/a.pem"), "")
    assert str(conf.parent / "pki/a.key") in identity.text()


@pytest.mark.parametrize(
    ("rotated", "taken"),
    [
        (made.certificate(USER, 10, 200), True),
        (made.certificate(USER, 0, 100), True),
        (made.certificate(USER, 0, 50), False),  # rotation was turned off again
        (made.certificate("system:node:another", 0, 200), False),
        ("nothing", False),
        (None, False),
    ],
)
def test_a_rotated_certificate_takes_the_place_of_one_inside(
    conf: Path, tmp_path: Path, rotated: str | None, taken: bool
) -> None:
    conf.write_text(made.kubeconfig(inside(0, 100)))
    current = tmp_path / ROTATED
    if rotated is not None:
        current.write_text(rotated)
    identity = kubelets_identity(str(conf), str(tmp_path))
    assert identity.access.certificate.file == (str(current) if taken else "")
    assert identity.link == ("" if taken else str(conf))


def test_a_token_of_the_kubelet_is_linked_or_named(conf: Path) -> None:
    conf.write_text(made.kubeconfig({"token": "t"}))
    assert kubelets_identity(str(conf), "/nowhere").link == str(conf)
    conf.write_text(made.kubeconfig({"tokenFile": "/run/token"}))
    assert kubelets_identity(str(conf), "/nowhere").link == ""


def test_a_link_would_lose_relative_paths(conf: Path) -> None:
    config = made.kubeconfig({"token": "t"}, **{"certificate-authority": "/etc/ca.crt"})
    conf.write_text(config.replace("certificate-authority-data", "not-here"))
    assert kubelets_identity(str(conf), "/nowhere").link == str(conf)
    conf.write_text(conf.read_text().replace("/etc/ca.crt", "ca.crt"))
    with pytest.raises(AccessError, match="relative to it, which a link to it can't keep"):
        kubelets_identity(str(conf), "/nowhere")


def test_a_given_kubeconfig_must_be_whole() -> None:
    assert given_identity("file", made.kubeconfig(inside(0, 1))).source == "file"
    with pytest.raises(AccessError, match="names the file /a.pem, which is not on this machine"):
        given_identity("file", made.kubeconfig({"client-certificate": "/a.pem", "client-key": "/a.pem"}))
    with pytest.raises(AccessError) as caught:
        given_identity("file", "token: [hidden")
    assert "hidden" not in str(caught.value)


def test_a_minted_token_goes_where_the_kubelet_goes(conf: Path) -> None:
    """Whatever the kubelet proves itself with: a program too."""
    conf.write_text(made.kubeconfig({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}))
    identity = minted_identity(str(conf), "t")
    assert (identity.access.server, identity.access.ca.content) == ("https://10.0.0.1:6443", made.AUTHORITY)
    assert (identity.access.exec_plugin, identity.access.token.content) == (None, "t")


def test_how_long_it_holds(tmp_path: Path) -> None:
    pem = tmp_path / "a.pem"
    pem.write_text(made.certificate(USER, 0, DAY))
    access = Access("https://a", "here", certificate=Material(str(pem)), key=Material(str(pem)))
    assert validity(access) == Validity(USER, 0, DAY)
    assert validity(Access("https://a", "here", token=Material(content=made.token("sa", 1, 2)))) == Validity("sa", 1, 2)
    assert validity(Access("https://a", "here", token=Material(content="opaque"))) is None
    pem.write_text("nothing")
    with pytest.raises(CredentialsError, match=r"a\.pem: there is no certificate in it"):
        validity(access)
    pem.unlink()
    with pytest.raises(AccessError, match=r"a\.pem can't be read: No such file"):
        validity(access)


BARE = Access("https://a", "here")


def test_what_ended_or_did_not_begin_is_refused() -> None:
    held = Validity(USER, 1000, 2000)
    require_time(Identity("kubelet", BARE), held, 1500)
    require_time(Identity("kubelet", BARE), None, 1500)
    with pytest.raises(CredentialsError, match="ended on 1970-01-01T00:33:20Z. The kubelet renews it"):
        require_time(Identity("kubelet", BARE), held, 2000)
    with pytest.raises(CredentialsError, match="is the node's clock right"):
        require_time(Identity("kubelet", BARE), held, 500)


@pytest.mark.parametrize(
    ("source", "lifetime", "left", "said"),
    [
        ("kubelet", 365, 35, ""),  # it renews with 36 to 110 days left
        ("kubelet", 365, 29, "ends in 29.0 days, on .* The kubelet renews it"),
        ("kubelet", 1, 0.2, ""),
        ("kubelet", 1, 0.05, "The kubelet renews it"),
        ("minted", 90, 80, ""),
        ("minted", 90, 20, "The next run with the tag credentials mints another"),
        ("minted", 1, 0.9, "gives tokens for 1.0 days only"),
        ("admin", 365, 31, ""),
        ("admin", 365, 29, "kubeadm certs renew admin.conf"),
        ("file", 365, 29, "put a newer kubeconfig on the controller"),
    ],
)
def test_warnings_name_who_renews_it(source: str, lifetime: float, left: float, said: str) -> None:
    held = Validity(USER, 0, lifetime * DAY)
    warned = growing_old(Identity(source, BARE), held, 30, (lifetime - left) * DAY)
    assert bool(warned) == bool(said)
    assert re.search(said, warned)


def test_a_linked_certificate_has_nobody_who_renews_it() -> None:
    warned = growing_old(Identity("kubelet", BARE, "/etc/k.conf"), Validity(USER, 0, 365 * DAY), 30, 360 * DAY)
    assert warned.endswith("Nobody renews it: it stands in /etc/k.conf itself")


def test_a_description_has_no_secret(conf: Path) -> None:
    conf.write_text(made.kubeconfig(inside(0, 4 * 10**9)))
    told = describe(kubelets_identity(str(conf), "/nowhere"))
    assert told["proof"] == f"certificate in {conf}"
    assert (told["user"], told["ends"]) == (USER, "2096-10-02T07:06:40Z")
    assert not any("PRIVATE" in value or made.coded(made.key())[:40] in value for value in told.values())


def test_days_left() -> None:
    assert days_left(Validity(USER, 0, 10 * DAY), 0.04 * DAY) == 10.0
    assert days_left(None) is None
