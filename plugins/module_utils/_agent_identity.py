# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The identity of a node's agents, as it should be: whose it is, how long it holds, who renews it.

By default it is the kubelet's own, by reference: the agents read the certificate that the kubelet rotates, and no copy
of it grows old.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace

from ansible_collections.colocation.kubernetes.plugins.module_utils import _validity
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import (
    KUBELET,
    MINTED,
    has_secret,
    render,
    require_usable,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import digest
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import (
    Kubeconfig,
    choose_access,
    parse_document,
    read_kubeconfig,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import Validity, ValidityError

ROTATED = "kubelet-client-current.pem"  # the kubelet's name for it, in its --cert-dir
CERTIFICATES = "/var/lib/kubelet/pki"  # its default for that
RENEWERS = {  # who makes another, where a certificate or token should be another by now
    "kubelet": "The kubelet renews it; see why it did not: journalctl -u kubelet | grep -i certificate",
    "minted": "The next run with the tag credentials mints another",
    "admin": "Nobody renews it by itself: kubeadm certs renew admin.conf, then run with the tag credentials",
    "file": "Nobody renews it by itself: put a newer kubeconfig on the controller and run with the tag credentials",
}


class CredentialsError(Exception):
    """There is no identity to give; the text says why and what to do, never a secret."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the agents should have."""

    source: str
    access: Access
    link: str = ""  # the kubelet's own kubeconfig, where a secret stands in it: read there, never copied

    def text(self) -> str:
        return render(self.access, self.source)


def kubelets_identity(kubeconfig: str, certificate_directory: str) -> Identity:
    """The kubelet's own, by its kubeconfig: where that has a certificate inside, the rotated one unless it is older."""
    config = read_kubeconfig(kubeconfig)
    access = choose_access([config])
    require_usable(access)
    rotated = Material(os.path.join(certificate_directory, ROTATED))
    if access.certificate.content and _takes_its_place(rotated, access.certificate):
        access = replace(access, certificate=rotated, key=rotated)
    if not has_secret(access):
        return Identity(KUBELET, access)
    if choose_access([replace(config, directory="/")]) != choose_access([config]):
        raise AccessError(
            f"{kubeconfig} holds its key itself and names other files by paths that are relative to it, which a link "
            "to it can't keep; write them from / on, or take credentials_source=minted"
        )
    return Identity(KUBELET, access, kubeconfig)


def _takes_its_place(rotated: Material, inside: Material) -> bool:
    try:
        found, known = (_validity.of_certificate(read_material(one)) for one in (rotated, inside))
    except (AccessError, ValidityError):
        return False
    return found.user == known.user and found.ends >= known.ends


def given_identity(source: str, text: str) -> Identity:
    """From a kubeconfig's text that came from another machine; it must hold everything itself."""
    access = choose_access([Kubeconfig(parse_document(text, "the kubeconfig"), "the given kubeconfig", "/")])
    require_usable(access)
    for material in (access.ca, access.certificate, access.key, access.token):
        if material.file:
            raise AccessError(f"the given kubeconfig names the file {material.file}, which is not on this machine")
    return Identity(source, access)


def minted_identity(kubeconfig: str, token: str) -> Identity:
    """A token at the API server that the node's kubelet trusts."""
    kubelets = choose_access([read_kubeconfig(kubeconfig)])
    access = Access(
        server=kubelets.server,
        source=f"the minted token at the server of {kubeconfig}",
        ca=kubelets.ca,
        server_name=kubelets.server_name,
        token=Material(content=token),
    )
    require_usable(access)
    return Identity(MINTED, access)


def read_material(material: Material) -> str:
    """The content, wherever it is."""
    if material.content:
        return material.content
    try:
        with open(material.file, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise AccessError(f"{material.file} can't be read: {reason}") from None


def validity(access: Access) -> Validity | None:
    """How long an identity holds; None where its token does not say."""
    if access.token:
        try:
            return _validity.of_token(read_material(access.token).strip())
        except ValidityError:
            return None
    try:
        return _validity.of_certificate(read_material(access.certificate))
    except ValidityError as problem:
        where = access.certificate.file or access.source
        raise CredentialsError(f"{where}: {problem}") from None


def require_time(identity: Identity, found: Validity | None, now: float) -> None:
    """See that it holds now."""
    if found is None:
        return
    renewer = RENEWERS[identity.source]
    if found.ends <= now:
        raise CredentialsError(f"What is to prove {found.user} ended on {_validity.iso(found.ends)}. {renewer}")
    if found.begins > now + 300:
        raise CredentialsError(
            f"What is to prove {found.user} begins only on {_validity.iso(found.begins)}: is the node's clock right?"
        )


def growing_old(identity: Identity, found: Validity | None, days: int, now: float) -> str:
    """A warning where it should be another by now, else nothing. The kubelet renews in the last third of its time."""
    if found is None:
        return ""
    if identity.source == MINTED and found.lifetime < days * 86400:
        return (
            f"The API server gives tokens for {found.lifetime / 86400:.1f} days only, this one until "
            f"{_validity.iso(found.ends)}: run with the tag credentials before that, each time"
        )
    if not found.due(now, days, 0.1 if identity.source == KUBELET else 0.5):
        return ""
    left = (found.ends - now) / 86400
    inside = identity.source == KUBELET and identity.link
    renewer = f"Nobody renews it: it stands in {identity.link} itself" if inside else RENEWERS[identity.source]
    return f"What proves {found.user} ends in {left:.1f} days, on {_validity.iso(found.ends)}. {renewer}"


def describe(identity: Identity) -> dict[str, str]:
    """An identity for people: everything that tells it from another, and nothing secret."""
    access = identity.access
    try:
        found = validity(access)
    except (AccessError, CredentialsError):
        found = None
    proof, kind = (access.token, "token") if access.token else (access.certificate, "certificate")
    inside = f"in {identity.link}" if identity.link else "in the kubeconfig"
    shown = {
        "source": identity.source,
        "server": access.server,
        "authority": access.ca.file or (f"sha256 {digest(access.ca.content.encode())[:16]}" if access.ca else "system"),
        "user": found.user if found else "",
        "proof": f"{kind} {proof.file or inside}",
    }
    if found and not proof.file:  # what is rotated in a file of its own changes nothing here
        shown["ends"] = _validity.iso(found.ends)
    return {name: value for name, value in shown.items() if value}


def days_left(found: Validity | None, now: float | None = None) -> float | None:
    """Days until it ends, to a tenth."""
    return None if found is None else round((found.ends - (time.time() if now is None else now)) / 86400, 1)
