# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The files without which a kubelet does not start, as they stand: kubeconfig, certificates, authority, configuration.

Read for node_health, which tells what is wrong, and for kubelet_mend, which writes what can be written from the rest.
Which files they are the running kubelet says, or its unit's environment, or kubeadm's defaults.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import (
    Access,
    AccessError,
    NotKnownHere,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_of
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    BOOTSTRAP_KUBECONFIG,
    CONFIG,
    environment_of,
    find_process,
    identity_in,
    kubeconfig_in,
    kubeconfig_of,
    made_otherwise,
    parse_config,
    read_cluster,
    read_flags,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import under
from ansible_collections.colocation.kubernetes.plugins.module_utils._plain_yaml import YamlProblem, load_plain
from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import (
    Validity,
    ValidityError,
    of_certificate,
)

CERTIFICATES = "/var/lib/kubelet/pki"
CURRENT = "kubelet-client-current.pem"
CA_FILE = "/etc/kubernetes/pki/ca.crt"
INSTANCE_CONFIG = "instance-config.yaml"  # kubeadm merges it into the configuration since 1.34
KIND = "KubeletConfiguration"
MOST_BYTES = 4 << 20
# Other kubeconfigs of a node that name the cluster's address: kube-proxy's, as kubeadm and others have it, and ours.
NEIGHBOURS = (
    "/var/lib/kubelet/pods/*/volumes/kubernetes.io~configmap/kube-proxy/kubeconfig.conf",
    "/var/lib/kube-proxy/kubeconfig",
    "/var/lib/kube-proxy/kubeconfig.conf",
    "/var/lib/colocation/credentials/kubeconfig",
)


@dataclass(frozen=True, slots=True)
class File:
    """A file's text, or why there is none."""

    path: str
    text: str
    problem: str  # empty: it was read


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate on the node."""

    path: str  # or where else it stands, in words
    validity: Validity | None
    problem: str = ""

    @property
    def user(self) -> str:
        return self.validity.user if self.validity else ""

    @property
    def ends(self) -> float:
        return self.validity.ends if self.validity else 0.0

    def holds(self, now: float) -> bool:
        return self.validity is not None and self.validity.begins <= now < self.validity.ends


@dataclass(frozen=True, slots=True)
class KubeletFiles:
    """All of them."""

    kubeconfig: File
    access: Access | None  # what the kubeconfig says; None: see kubeconfig.problem and unread
    unread: str  # why the kubeconfig is not understood here, with which nothing may be wrong
    joining: bool  # a bootstrap kubeconfig is there: the kubelet makes its kubeconfig by itself
    current: Certificate  # what the kubelet uses
    others: tuple[Certificate, ...]  # older and newer ones beside it, of the same node
    authority: File  # that of the clients of the kubelet
    authority_validity: Validity | None
    config: File
    config_doubt: str  # why it may be damaged; only a kubelet that does not run proves it
    instance_config: File
    servers: tuple[tuple[str, str], ...]  # address and authority of the cluster, by the node's other kubeconfigs

    @property
    def by_certificate(self) -> bool:
        """A certificate proves who the node is, or did before kubeadm's kubeconfig was lost."""
        return bool(self.access.certificate) if self.access else not self.made_otherwise

    @property
    def made_otherwise(self) -> str:
        """How the node is a member, where kubeadm did not join it or nobody can tell; empty: it did, or may have."""
        return made_otherwise(self.kubeconfig.path, self.access) or self.unread


def read_files(root: str, now: float) -> KubeletFiles:
    """The files as they stand under `root`."""
    process = find_process(root, "kubelet")
    flags = read_flags(root, process)
    named = read_file(root, kubeconfig_of(flags))
    kubeconfig, access, unread = _kubeconfig(named, lambda: environment_of(root, process))
    by_flags_alone = "kubeconfig" in flags and "config" not in flags
    config, doubt = (File("", "", ""), "") if by_flags_alone else _config(read_file(root, flags.get("config", CONFIG)))
    ca_file = flags.get("client-ca-file") or ("" if config.problem else client_ca_file(config.text))
    authority = _authority(read_file(root, ca_file or CA_FILE))
    if not ca_file and not config.problem and not authority.text:
        authority = File(authority.path, "", "")  # the kubelet asks no clients for certificates
    directory = flags.get("cert-dir", CERTIFICATES)
    beside = os.path.join(os.path.dirname(config.path), INSTANCE_CONFIG)
    bootstrap = flags.get("bootstrap-kubeconfig", BOOTSTRAP_KUBECONFIG)
    return KubeletFiles(
        kubeconfig=kubeconfig,
        access=access,
        unread=unread,
        joining=bool(read_file(root, bootstrap).text.strip()),
        current=_current(root, directory, access, now),
        others=tuple(_others(root, directory)),
        authority=authority,
        authority_validity=certificate(authority.path, authority.text).validity,
        config=config,
        config_doubt=doubt,
        instance_config=read_file(root, beside),
        servers=tuple(_servers(root, [bootstrap, *NEIGHBOURS])),
    )


def read_file(root: str, path: str) -> File:
    """The text, or why not; a huge file is not one of ours."""
    try:
        with open(under(root, path), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return File(path, "", f"{path} is not there")
    except OSError as problem:
        return File(path, "", f"{path} can't be read: {problem.strerror or problem}")
    if len(content) > MOST_BYTES:
        return File(path, "", f"{path} is larger than {MOST_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return File(path, "", f"{path} is no text")
    return File(path, text, "" if text.strip() else f"{path} is empty")


def client_ca_file(config: str) -> str:
    """authentication.x509.clientCAFile, which stands nowhere else under this name."""
    found = re.search(r"""["']?clientCAFile["']?:\s*["']?([^\s"',}]+)""", config)
    return found.group(1) if found else ""


def _kubeconfig(file: File, environment: Callable[[], Mapping[str, str]]) -> tuple[File, Access | None, str]:
    """The file with what is wrong with it, what it says, and why that is not understood here."""
    if file.problem:
        return file, None, ""
    try:
        return file, identity_in(kubeconfig_in(file.text, file.path), environment), ""
    except NotKnownHere as problem:
        return file, None, str(problem)
    except AccessError as problem:
        return File(file.path, file.text, str(problem)), None, ""


def _config(file: File) -> tuple[File, str]:
    """Half a file mostly still is YAML, so what is only odd is a doubt."""
    if file.problem:
        return file, ""
    if parse_config(file.text).get("kind") != KIND:
        return File(file.path, file.text, f"{file.path} is not of the kind {KIND}: it is damaged or cut off"), ""
    if not file.text.lstrip().startswith("{"):
        try:
            load_plain(file.text)
        except YamlProblem as problem:
            return file, f"{file.path} {problem}"
    return file, ""


def _authority(file: File) -> File:
    if not file.problem and "-----BEGIN CERTIFICATE-----" not in file.text:
        return File(file.path, file.text, f"{file.path} has no certificate in it")
    return file


def _current(root: str, directory: str, access: Access | None, now: float) -> Certificate:
    """The rotated one, or the kubeconfig's own where it holds longer or is all there is."""
    rotated = read_certificate(root, os.path.join(directory, CURRENT))
    if access is None or not access.certificate:
        return rotated
    if access.certificate.file:
        named = read_certificate(root, access.certificate.file)
        return rotated if os.path.basename(named.path) == CURRENT and named.problem and not rotated.problem else named
    inside = certificate(f"the certificate in {access.source}", access.certificate.content)
    return rotated if rotated.holds(now) and rotated.ends >= inside.ends else inside


def _others(root: str, directory: str) -> Iterator[Certificate]:
    for path in sorted(glob.glob(under(root, os.path.join(glob.escape(directory), "kubelet-client-*.pem")))):
        name = os.path.basename(path)
        found = read_certificate(root, os.path.join(directory, name))
        if name != CURRENT and node_of(found.user) and "PRIVATE KEY-----" in _text(path):
            yield found


def _text(path: str) -> str:
    return read_file("/", path).text


def read_certificate(root: str, path: str) -> Certificate:
    file = read_file(root, path)
    return Certificate(path, None, file.problem) if file.problem else certificate(path, file.text)


def certificate(where: str, pem: str) -> Certificate:
    """The first certificate of a PEM text."""
    try:
        return Certificate(where, of_certificate(pem))
    except ValidityError as problem:
        return Certificate(where, None, f"{where}: {problem}")


def _servers(root: str, patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        for path in sorted(glob.glob(under(root, pattern))):
            server, authority = read_cluster(root, ["/" + os.path.relpath(path, root or "/")])
            if server.startswith("https://"):
                yield server, authority
