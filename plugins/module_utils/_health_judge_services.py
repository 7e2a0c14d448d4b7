# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The services of a node judged: the kubelet, the files that it starts with, and containerd."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_status import CriAnswer
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import (
    YOUNG,
    Agent,
    HealthFacts,
    Service,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import REJOIN, Finding, found
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import Certificate, KubeletFiles
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_mend import (
    can_make_kubeconfig,
    plan_files,
    wants_config,
    wants_kubeconfig,
    wants_link,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import Containerd
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import DEFAULT_DRIVER, Kubelet
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_services import (
    DRIVER_FROM_CRI,
    DRIVER_TO_KUBELET,
    OUR_PROXY,
    driver_name,
    minor,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import Validity, iso

KUBELET_UNIT = "kubelet.service"
DAY = 86400.0


def kubelet_runs(facts: HealthFacts) -> bool:
    """It is up, and not only between two crashes."""
    service = facts.kubelet_service
    return service is not None and service.unit is not None and service.unit.active == "active" and not young(service)


def young(service: Service) -> bool:
    """systemd started it again a moment ago, so that it is up proves nothing."""
    unit = service.unit
    return unit is not None and unit.crashes > 0 and (service.up_for is None or service.up_for < YOUNG)


# the kubelet


def check_kubelet(facts: HealthFacts) -> Iterator[Finding]:
    kubelet = facts.kubelet
    if kubelet is None:
        return
    if kubelet.bundles:
        yield found("kubelet-bundled", f"a kubelet of another distribution is here: {', '.join(kubelet.bundles)}")
        return
    if not kubelet.binary:
        yield found("kubelet-missing", "no kubelet is installed")
        return
    if any(path.startswith("/snap/") for path in (kubelet.binary, kubelet.process_executable)):
        yield found("kubelet-snap", f"the kubelet is a snap: {kubelet.process_executable or kubelet.binary}")
        return
    started_by = kubelet.process_cgroup
    if started_by and KUBELET_UNIT not in started_by.split("/"):
        yield found("kubelet-not-systemd", f"the kubelet runs in {started_by}, not in {KUBELET_UNIT}")
        return
    if facts.kubelet_service is not None:
        yield from _check_kubelet_unit(facts, facts.kubelet_service)


def _check_kubelet_unit(facts: HealthFacts, service: Service) -> Iterator[Finding]:
    unit = service.unit
    if unit is None or not unit.exists:
        yield found("kubelet-no-unit", f"there is no {KUBELET_UNIT}")
        return
    said = f"; last error: {service.last_error}" if service.last_error else ""
    if unit.masked:
        yield found("kubelet-masked", f"{unit.name} is masked", unit=unit.name)
        return
    if unit.can_be_enabled and not unit.enabled:
        yield found("kubelet-disabled", f"{unit.name} does not start at boot", unit=unit.name)
    if unit.active in ("inactive", "failed", "deactivating"):
        words = f"{unit.name} is {unit.active} ({unit.result or unit.sub}){said}"
        yield found("kubelet-stopped", words, unit=unit.name)
    elif unit.active != "active" or (young(service) and not _speaks(facts)):
        words = f"{unit.name} is {unit.active} ({unit.sub}), started again {unit.crashes} times by systemd{said}"
        yield found("kubelet-crashing", words, unit=unit.name)


def _speaks(facts: HealthFacts) -> bool:
    """The Node is Ready by what this very process said."""
    node = facts.node
    return node is not None and node.readiness is not None and node.readiness.ready


# its files


def check_files(facts: HealthFacts, certificate_days: float, authority_days: float) -> Iterator[Finding]:
    files, kubelet, now = facts.files, facts.kubelet, facts.now
    if facts.rejoin or (facts.node is not None and facts.node.rejoining):
        yield found("rejoin-unfinished", "a rejoin of this node was begun and has not ended")
    if files is None or kubelet is None or not kubelet.binary or kubelet.bundles:
        return
    yield from _check_identity(files, now)
    config = wants_config(files, kubelet_runs(facts))
    if config:
        yield found("kubelet-config", config)
    if files.by_certificate and not files.current.problem and files.current.validity:
        yield from _check_certificate(files, files.current.validity, now, certificate_days)
    yield from _check_authority(files, now, authority_days)


def _check_identity(files: KubeletFiles, now: float) -> Iterator[Finding]:
    if files.unread:
        yield found("kubelet-kubeconfig-unread", files.unread)
    if wants_link(files, now):
        words = files.current.problem or f"{files.current.path} {_ended(files.current, now)}"
        newer = [item.target for item in plan_files(files, now).mendings if item.target]
        yield found("kubelet-certificate-link", f"{words}; {', '.join(newer)} holds")
    elif not files.joining and files.current.problem and not files.kubeconfig.problem and files.by_certificate:
        yield found("kubelet-identity-lost", files.current.problem)
    if wants_kubeconfig(files):
        if can_make_kubeconfig(files, now):
            yield found("kubelet-kubeconfig", files.kubeconfig.problem)
        else:
            why = "kubeadm did not join this node" if files.made_otherwise else "nothing is left to make it of"
            yield found("kubelet-identity-lost", f"{files.kubeconfig.problem}, and {why}")


def _ended(certificate: Certificate, now: float) -> str:
    validity = certificate.validity
    if validity is None:
        return "can't be read"
    return f"ended on {iso(validity.ends)}" if validity.ends <= now else f"begins only on {iso(validity.begins)}"


def _check_certificate(files: KubeletFiles, validity: Validity, now: float, days: float) -> Iterator[Finding]:
    left = (validity.ends - now) / DAY
    if not files.current.holds(now):
        if not wants_link(files, now):
            words = f"{files.current.path} of {validity.user} {_ended(files.current, now)}"
            yield found("kubelet-certificate-ended", words)
    elif validity.due(now, days, 0.1):
        words = f"{files.current.path} of {validity.user} ends in {left:.1f} days, on {iso(validity.ends)}"
        yield found("kubelet-certificate-ending", words)


def _check_authority(files: KubeletFiles, now: float, days: float) -> Iterator[Finding]:
    if files.authority.problem:
        can = any(item.path == files.authority.path for item in plan_files(files, now).mendings)
        yield found("kubelet-ca-file", files.authority.problem, steps=None if can else (REJOIN,))
        return
    authority = files.authority_validity
    if authority is None:
        return
    left = (authority.ends - now) / DAY
    words = f"the authority {authority.user} in {files.authority.path}"
    if left <= 0:
        yield found("ca-ended", f"{words} ended on {iso(authority.ends)}")
    elif left < days:
        yield found("ca-ending", f"{words} ends in {left:.0f} days")


# containerd


def check_containerd(facts: HealthFacts) -> Iterator[Finding]:
    kubelet, containerd = facts.kubelet, facts.containerd
    if kubelet is not None:
        endpoint = kubelet.runtime_endpoint
        if kubelet.bundles or not kubelet.binary:  # no node of ours yet
            return
        if endpoint and "containerd" not in endpoint and OUR_PROXY not in endpoint:
            yield found("runtime-other", f"the kubelet's container runtime is {endpoint}")
            return
    if containerd is None:
        return
    if not containerd.binary:
        yield found("containerd-missing", "no containerd is installed")
        return
    yield from _check_containerd_unit(facts)
    if containerd.config_error:
        yield found("containerd-config", f"containerd can't read its config: {containerd.config_error}")
    elif containerd.cri_disabled:
        yield found("containerd-cri-disabled", "containerd's CRI plugin is disabled: no kubelet can use it")
    else:
        yield from _check_driver(facts, containerd)
    yield from _check_answers(facts, containerd)
    broken = facts.network.broken_records if facts.network else ()
    if broken:
        words = f"{len(broken)} of CNI's notes of pods' networks can't be read, so these pods never end: {broken[0]}"
        yield found("cni-record", words)


def _check_containerd_unit(facts: HealthFacts) -> Iterator[Finding]:
    service = facts.containerd_service
    if service is None:
        return
    unit = service.unit
    if unit is None or not unit.exists:
        yield found("containerd-no-unit", "containerd is there, but no containerd.service")
        return
    if unit.masked:
        yield found("containerd-masked", f"{unit.name} is masked")
        return
    if unit.can_be_enabled and not unit.enabled:
        yield found("containerd-disabled", f"{unit.name} does not start at boot")
    if unit.active != "active":
        said = f"; last error: {service.last_error}" if service.last_error else ""
        yield found("containerd-stopped", f"{unit.name} is {unit.active} ({unit.result or unit.sub}){said}")


def kubelet_driver(kubelet: Kubelet, containerd: Containerd) -> str:
    """The kubelet's own cgroup driver; empty where it takes the runtime's."""
    asks = (minor(kubelet.version) or ()) >= DRIVER_FROM_CRI and (minor(containerd.version) or ()) >= DRIVER_TO_KUBELET
    return "" if asks else kubelet.cgroup_driver or DEFAULT_DRIVER


def driver_in_use(facts: HealthFacts) -> str:
    """The cgroup driver of the node's pods: the kubelet's own or, where it takes containerd's, that of the one that
    runs or would run; empty where nobody tells."""
    if facts.kubelet is None or facts.containerd is None or facts.files is None or facts.files.config.problem:
        return ""
    if own := kubelet_driver(facts.kubelet, facts.containerd):
        return own
    running = facts.runtime.systemd_cgroup if facts.runtime else None
    systemd = facts.containerd.systemd_cgroup if running is None else running
    return "" if systemd is None else driver_name(systemd)


def _check_driver(facts: HealthFacts, containerd: Containerd) -> Iterator[Finding]:
    kubelet = facts.kubelet
    if kubelet is None or (facts.files is not None and facts.files.config.problem):
        return  # what the kubelet wants is not known
    wanted = kubelet_driver(kubelet, containerd)
    if not wanted:
        return
    for where, systemd in (
        ("in containerd's config", containerd.systemd_cgroup),
        ("in the containerd that runs", facts.runtime.systemd_cgroup if facts.runtime else None),
    ):
        if systemd is not None and (has := driver_name(systemd)) != wanted:
            yield found("containerd-cgroup-driver", f"the cgroup driver {where} is {has}, the kubelet's is {wanted}")
            return


def _check_answers(facts: HealthFacts, containerd: Containerd) -> Iterator[Finding]:
    runtime = facts.runtime
    if runtime is not None and runtime.problem:
        if not (containerd.config_error or containerd.cri_disabled):
            yield found("containerd-silent", f"containerd.service is active, but {runtime.problem}")
    elif runtime is not None:
        yield from _check_conditions(facts, runtime)
    elif facts.network is not None and not facts.network.files:
        yield found("cni-missing", f"{facts.network.directory} has no configuration")
    endpoint = facts.endpoint
    if endpoint is not None and endpoint.problem and runtime is not None and not runtime.problem:
        words = f"the kubelet's endpoint does not answer: {endpoint.problem}"
        yield found("endpoint-silent", words, unit=_server_of(endpoint, facts.agents))


def _server_of(endpoint: CriAnswer, agents: tuple[Agent, ...]) -> str:
    """The unit behind the endpoint, where it is our proxy; else all that is known is the kubelet, which uses it."""
    units = [agent.service.unit.name for agent in agents if agent.service.unit is not None]
    ours = [name for name in units if "cri" in name] if OUR_PROXY in endpoint.socket else []
    return next(iter(ours), KUBELET_UNIT)


def _check_conditions(facts: HealthFacts, runtime: CriAnswer) -> Iterator[Finding]:
    for condition in runtime.conditions:
        if condition.status == "True":
            continue
        if condition.type == "RuntimeReady":
            yield found("containerd-not-ready", f"containerd says that it is not ready: {condition.words}")
        elif condition.type == "NetworkReady":
            network = facts.network
            there = f"; {network.problem}" if network and network.problem else ""
            yield found("cni-missing", f"containerd has no network for pods: {condition.words}{there}")
