# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The services of one node judged: kubelet, containerd, and the API server as seen from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import (
    BY_NODE_PREP,
    ERROR,
    MENDED,
    WARNING,
    Finding,
    found,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import Containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_facts import WorkerFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import DEFAULT_DRIVER, Kubelet
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

LEAST_KUBELET = (1, 24)
LEAST_CONTAINERD = (1, 6)
DRIVER_FROM_CRI = (1, 31)  # KubeletCgroupDriverFromCRI is on by default
DRIVER_TO_KUBELET = (2, 0)  # containerd answers the call RuntimeConfig
ANSWERS = (200, 401, 403)  # a server that refuses us is there
OUR_PROXY = "cri-resmgr"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def minor(version: str) -> tuple[int, int] | None:
    found_numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(found_numbers[1]), int(found_numbers[2])) if found_numbers else None


def running(unit: UnitState | None) -> bool:
    return unit is not None and unit.active == "active"


def check_kubelet(kubelet: Kubelet, agents_use_it: bool) -> Iterator[Finding]:
    """`agents_use_it`: the agents are to have the kubelet's identity."""
    if kubelet.bundles:
        yield found("kubelet-bundled", f"a kubelet of another distribution is here: {', '.join(kubelet.bundles)}")
        return
    if not kubelet.binary:
        yield found("kubelet-missing", "no kubelet is installed")
        return
    if _from_snap(kubelet):
        yield found("kubelet-snap", f"the kubelet is a snap: {kubelet.process_executable or kubelet.binary}")
        return
    yield from _check_kubelet_version(kubelet)
    yield from _check_kubelet_unit(kubelet)
    if not kubelet.kubeconfig_present:
        yield found("kubelet-not-joined", f"{kubelet.kubeconfig} is not there: the node never joined, or lost it")
    elif not kubelet.server:
        yield found("kubelet-not-joined", f"{kubelet.kubeconfig} names no API server")
    elif kubelet.identity_problem:
        yield found("kubelet-identity", kubelet.identity_problem)
    elif agents_use_it and kubelet.agents_problem:
        yield found("credentials-source", kubelet.agents_problem)
    endpoint = kubelet.runtime_endpoint
    if endpoint and "containerd" not in endpoint and OUR_PROXY not in endpoint:
        yield found("runtime-other", f"the kubelet's container runtime is {endpoint}")


def _from_snap(kubelet: Kubelet) -> bool:
    fragment = kubelet.unit.fragment if kubelet.unit else ""
    paths = (kubelet.process_executable, kubelet.binary)
    return any(path.startswith("/snap/") for path in paths) or "snap." in fragment.rpartition("/")[2]


def _check_kubelet_version(kubelet: Kubelet) -> Iterator[Finding]:
    version = minor(kubelet.version)
    if version is None:
        yield found("kubelet-broken", f"{kubelet.binary} --version fails: {kubelet.version_error}")
    elif version < LEAST_KUBELET:
        yield found("kubelet-version", f"the kubelet is {kubelet.version}")


def _check_kubelet_unit(kubelet: Kubelet) -> Iterator[Finding]:
    started_by = kubelet.process_cgroup
    if started_by and "kubelet.service" not in started_by.split("/"):
        yield found("kubelet-not-systemd", f"the kubelet runs in {started_by}, not in kubelet.service")
        return
    unit = kubelet.unit
    if unit is None or not unit.exists:
        yield found("kubelet-no-unit", "there is no kubelet.service")
        return
    yield from _check_unit(unit, "kubelet")


def _check_unit(unit: UnitState, name: str) -> Iterator[Finding]:
    """What keeps a service from running, most telling first; at boot and now are two questions."""
    if unit.masked:
        yield found(f"{name}-masked", f"{unit.name} is masked")
        return
    if unit.can_be_enabled and not unit.enabled:
        yield found(f"{name}-disabled", f"{unit.name} does not start at boot ({unit.enablement or 'no state'})")
    if unit.active != "active":
        yield found(f"{name}-stopped", f"{unit.name} is {unit.active}")


def check_containerd(containerd: Containerd, kubelet: Kubelet, install: bool, repair: bool) -> Iterator[Finding]:
    if kubelet.bundles:
        return
    if not containerd.binary:
        yield _no_containerd(install)
        return
    version = minor(containerd.version)
    if version is not None and version < LEAST_CONTAINERD:
        yield found("containerd-old", f"containerd is {containerd.version}")
    if containerd.unit is None or not containerd.unit.exists:
        yield found("containerd-no-unit", f"{containerd.binary} is there, but no containerd.service")
    else:
        yield from _check_unit(containerd.unit, "containerd")
    if containerd.config_error:
        yield _unreadable_config(containerd.config_error, repair)
        return
    if containerd.cri_disabled:
        yield found("containerd-cri-disabled", "containerd's CRI plugin is disabled: no kubelet can use it")


def driver_name(systemd: bool) -> str:
    return "systemd" if systemd else "cgroupfs"


def check_cgroup_driver(containerd: Containerd, kubelet: Kubelet, wanted: str) -> Iterator[Finding]:
    """node_prep gives containerd the wanted driver, whatever the kubelet has; pods start only if both have the same."""
    if kubelet.bundles:
        return
    systemd = containerd.systemd_cgroup
    if systemd is not None and (has := driver_name(systemd)) != wanted:
        yield found("containerd-cgroup-driver", f"containerd's cgroup driver is {has}, {wanted} is wanted")
    asks = _asks_containerd(kubelet, containerd)
    own = kubelet.cgroup_driver
    if not own and kubelet.config_read and not asks:
        own = DEFAULT_DRIVER
    if own and own != wanted:
        said = own if kubelet.cgroup_driver else f"{own}, its default"
        what = f"containerd is to have the cgroup driver {wanted}, but the kubelet's is {said}"
        yield found("cgroup-driver", what, level=WARNING if asks else ERROR)


def _asks_containerd(kubelet: Kubelet, containerd: Containerd) -> bool:
    """Whether the kubelet takes the driver from the runtime and its own setting does not count."""
    return (minor(kubelet.version) or ()) >= DRIVER_FROM_CRI and (minor(containerd.version) or ()) >= DRIVER_TO_KUBELET


def _no_containerd(install: bool) -> Finding:
    if install:
        return found("containerd-missing", "no containerd is installed")
    todo = "Install containerd, or let node_prep do it (node_prep_containerd_install: true)."
    return found("containerd-missing", "no containerd is installed", level=ERROR, todo=todo)


def _unreadable_config(error: str, repair: bool) -> Finding:
    what = f"containerd can't read its config: {error}"
    if repair:
        todo = f"{BY_NODE_PREP}: the file is kept aside and made anew, because node_prep_containerd_repair is set."
        return found("containerd-config", what, level=MENDED, todo=todo)
    return found("containerd-config", what)


def check_api(worker: WorkerFacts) -> Iterator[Finding]:
    api = worker.api
    if api is None:  # a node that knows no server is told by check_kubelet
        return
    if api.status == 0:
        yield _no_answer(worker, f"{api.server} does not answer: {api.error}", api.server)
    elif api.status not in ANSWERS:
        yield found("api-unhealthy", f"{api.server} answers /livez with {api.status}")
    if api.certificate == "refused":
        yield found("api-certificate", f"{api.server} shows a certificate we can't trust: {api.certificate_error}")


def _no_answer(worker: WorkerFacts, what: str, server: str) -> Finding:
    """A load balancer on the node's loopback is a pod of the node: dead because kubelet or containerd is."""
    own = urlsplit(server).hostname in LOOPBACK
    if own and not (running(worker.kubelet.unit) and running(worker.containerd.unit)):
        todo = f"{BY_NODE_PREP}: the way to the API server is a pod on this node, which starts with the kubelet."
        return found("api-unreachable", what, level=MENDED, todo=todo)
    return found("api-unreachable", what)
