# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What of a kubelet's files can be written anew from what is still there. Pure: the files as read go in, contents out.

Nothing is invented. The kubeconfig is made of a certificate that still holds, an authority and an address that other
files of the node (or the caller) name; the configuration of the cluster's own, with what is this node's laid over it.
What can't be made so stays for joining again. Where kubeadm did not join the node only the certificate's link is set;
the rest is for what made the node.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import (
    CURRENT,
    Certificate,
    KubeletFiles,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_of

LINK, KUBECONFIG, AUTHORITY, CONFIG = "certificate-link", "kubeconfig", "ca-file", "config"
_KEY = re.compile(r"""["']?([A-Za-z][A-Za-z0-9]*)["']?:(?:\s|$)""")


@dataclass(frozen=True, slots=True)
class Mending:
    """A file that is written anew, or a link that is set."""

    what: str
    path: str
    why: str
    content: str = ""
    target: str = ""  # of a link


@dataclass(frozen=True, slots=True)
class Plan:
    mendings: tuple[Mending, ...]
    left: tuple[str, ...]  # what is wrong and can't be mended so, in words


def certificate_in_use(files: KubeletFiles, now: float) -> Certificate | None:
    """The kubelet's certificate if it holds, else the one of those beside it that holds longest."""
    if files.current.holds(now):
        return files.current
    return max((one for one in files.others if one.holds(now)), key=lambda one: one.ends, default=None)


def wants_link(files: KubeletFiles, now: float) -> bool:
    """The link to the certificate leads to none that holds, but there is one."""
    linked = files.by_certificate and os.path.basename(files.current.path) == CURRENT
    return linked and not files.current.holds(now) and certificate_in_use(files, now) is not None


def wants_kubeconfig(files: KubeletFiles) -> bool:
    return bool(files.kubeconfig.problem) and not files.joining


def can_make_kubeconfig(files: KubeletFiles, now: float) -> bool:
    """All but the address, which any other node may tell, is on this node."""
    found = certificate_in_use(files, now)
    return not files.made_otherwise and found is not None and bool(node_of(found.user)) and bool(_ca(files))


def plan_files(files: KubeletFiles, now: float, server: str = "") -> Plan:
    """All but the configuration, which has to be asked for with what this plan makes."""
    mendings: list[Mending] = []
    left: list[str] = []
    found = certificate_in_use(files, now)
    if wants_link(files, now) and found is not None:
        why = files.current.problem or f"{files.current.path} holds no more"
        mendings.append(Mending(LINK, files.current.path, why, target=found.path))
    elif found is None and not files.joining and files.by_certificate:
        left.append(files.current.problem or f"{files.current.path} does not hold now, and there is no other")
    if files.made_otherwise:
        lost = [file.problem for file in (files.kubeconfig, files.authority) if file.problem and not files.joining]
        return Plan(tuple(mendings), (*left, *(otherwise(files, why) for why in lost)))
    if wants_kubeconfig(files):
        address = server or next((address for address, _ca_pem in files.servers), "")
        if found is None or not can_make_kubeconfig(files, now):
            left.append(f"{files.kubeconfig.problem}, and neither its certificate nor the cluster's authority is left")
        elif not address:
            left.append(f"{files.kubeconfig.problem}, and nothing on the node tells the API server's address")
        else:
            path = os.path.join(os.path.dirname(found.path), CURRENT)
            text = kubeconfig(address, _ca(files), path)
            mendings.append(Mending(KUBECONFIG, files.kubeconfig.path, files.kubeconfig.problem, text))
    if files.authority.problem:
        authority = files.access.ca.content if files.access else ""
        authority = authority or next((pem for _address, pem in files.servers if pem), "")
        if authority:
            mendings.append(Mending(AUTHORITY, files.authority.path, files.authority.problem, authority))
        else:
            left.append(f"{files.authority.problem}, and no kubeconfig of the node has it")
    return Plan(tuple(mendings), tuple(left))


def otherwise(files: KubeletFiles, why: str) -> str:
    """Why something is not written on a node that is none of kubeadm's."""
    return f"{why}, and kubeadm did not join this node ({files.made_otherwise}): what made it has to write it"


def wants_config(files: KubeletFiles, kubelet_runs: bool) -> str:
    """Why the configuration has to be written anew; empty where it does not."""
    return files.config.problem or ("" if kubelet_runs else files.config_doubt)


def _ca(files: KubeletFiles) -> str:
    """The cluster's authority, as any file of the node has it."""
    if files.authority.text and not files.authority.problem:
        return files.authority.text
    return next((pem for _server, pem in files.servers if pem), "")


def kubeconfig(server: str, authority: str, certificate: str) -> str:
    """As kubeadm writes it."""
    data = base64.b64encode(authority.encode()).decode()
    return (
        "apiVersion: v1\nclusters:\n- cluster:\n"
        f"    certificate-authority-data: {data}\n    server: {server}\n  name: default-cluster\n"
        "contexts:\n- context:\n    cluster: default-cluster\n    namespace: default\n"
        f"    user: default-auth\n  name: default-context\ncurrent-context: default-context\n"
        "kind: Config\npreferences: {}\nusers:\n- name: default-auth\n  user:\n"
        f"    client-certificate: {json.dumps(certificate)}\n    client-key: {json.dumps(certificate)}\n"
    )


def merge_config(cluster: str, instance: str) -> str:
    """The cluster's configuration with each key of this node's in place of its own, as kubeadm merges them."""
    over = {key: text for key, text in _sections(instance) if key not in ("apiVersion", "kind")}
    return "".join([text for key, text in _sections(cluster) if key not in over] + list(over.values()))


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Each top-level key with all its lines; comments between them are left out."""
    key, lines = "", [""]
    for line in text.splitlines():
        found = _KEY.match(line)
        if found:
            if key:
                yield key, "".join(lines)
            key, lines = found.group(1), []
        if line.strip() not in ("", "---") and not line.startswith("#"):
            lines.append(line + "\n")
    if key:
        yield key, "".join(lines)
