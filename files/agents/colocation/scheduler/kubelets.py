# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Use from the kubelets themselves, at /metrics/resource: nothing to install, and the right `nodes/metrics` is enough
(never `nodes/proxy`, which is a shell in every pod).

A token goes to whoever answers, so it is one of an account that can do nothing else (`kubelet_token`) where the
configuration names one, and it is first seen who answers. kubeadm's kubelets show a certificate that they made
themselves; `pin` takes the first one for the node's as long as the node is there, and never goes back from one that the
cluster's authority signed. A round ends in time also when many nodes are dead: those are asked last in the next, and
before them who has waited longest. Now and then some of the dead come first, or they might wait for ever.
"""

from __future__ import annotations

import hashlib
import math
import re
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from colocation.common.kube_access import Access, AccessError, Material
from colocation.common.kube_api import tls_context, token_of
from colocation.scheduler import config
from colocation.scheduler.cluster import Reading
from colocation.scheduler.fetch import FetchError, NotVerified, Target, fetch
from colocation.scheduler.kubelet_text import KubeletUse, Timed, rate, read_resource_metrics, same_look
from colocation.scheduler.kubelet_token import AccountToken
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount
from colocation.scheduler.sources import Readings, Sampling, SourceError, plausible, share_of

MOST_ANSWER = 16 << 20
EXAMPLES = 3
SECOND_CHANCE = 4  # in one of so many rounds, one of so many places is for a kubelet that failed
ADDRESS = re.compile(r"[0-9A-Za-z.:-]{1,253}")
SIGNED = "signed"  # in place of a pin: the cluster's authority stands for it


@dataclass(slots=True)
class _Known:
    """What is remembered of a kubelet."""

    pin: str = ""  # a certificate's hash, or SIGNED
    processor: Timed | None = None
    processor_read: float = 0.0
    pods: dict[str, Timed] = field(default_factory=dict)  # processor time of each
    pods_read: float = 0.0
    asked: float = 0.0  # when, by our clock that never goes back
    failed: bool = False  # then, and there was time enough


@dataclass(frozen=True, slots=True)
class _Means:
    """How to ask in this round."""

    verified: ssl.SSLContext
    any: ssl.SSLContext
    headers: Mapping[str, str]
    end: float


class KubeletSource:
    """Asks every kubelet, some at a time."""

    def __init__(
        self,
        find_access: Callable[[], Access],
        settings: config.Kubelets,
        round_seconds: float,
        pods: bool,
        account: AccountToken | None = None,
    ) -> None:
        self._find_access = find_access
        self._account = account  # whose token is shown; without one it is our own
        self._settings = settings
        self._round_seconds = round_seconds
        self._pods = pods
        self._known: dict[str, _Known] = {}
        self._round = 0
        self.name = "the kubelets"

    def sample(self, nodes: Mapping[str, Node]) -> Sampling:
        self._known = {name: self._known.get(name) or _Known() for name in nodes}
        self._round += 1
        means = self._means()
        order = self._order(nodes)
        readings: dict[str, Readings] = {}
        pods: dict[str, Amount] = {}
        failures: list[str] = []
        with ThreadPoolExecutor(self._settings.at_a_time, "kubelets") as pool:
            for node, found in zip(order, pool.map(lambda node: self._ask(node, means), order), strict=True):
                if isinstance(found, str):
                    failures.append(found)
                    continue
                readings[node.name] = self._readings(node, found)
                if self._pods:
                    pods.update(_pod_uses(self._known[node.name], found))
        if failures and not readings:
            if self._account is not None:
                self._account.forget()
            raise SourceError(_listed(failures, len(nodes)))
        return Sampling(readings, pods, (_listed(failures, len(nodes)),) if failures else ())

    def _order(self, nodes: Mapping[str, Node]) -> list[Node]:
        """Who is asked first: of those that are well, and of those that failed, who has waited longest."""
        waiting = sorted(nodes.values(), key=lambda node: self._known[node.name].asked)
        well = [node for node in waiting if not self._known[node.name].failed]
        failed = [node for node in waiting if self._known[node.name].failed]
        few = 0 if self._round % SECOND_CHANCE else math.ceil(self._settings.at_a_time / SECOND_CHANCE)
        return failed[:few] + well + failed[few:]

    def _means(self) -> _Means:
        try:
            access = self._find_access()
            token = self._account.get() if self._account is not None else token_of(access)
            # A kubelet that is shown a certificate of ours goes by that, and not by the token.
            shown = access if self._account is None else replace(access, certificate=Material(), key=Material())
            verified, anyone = tls_context(shown), tls_context(shown)
        except AccessError as problem:
            raise SourceError(str(problem)) from None
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return _Means(verified, anyone, headers, time.monotonic() + self._round_seconds)

    def _ask(self, node: Node, means: _Means) -> KubeletUse | str:
        """What a kubelet says, or why it says nothing."""
        known, most = self._known[node.name], self._settings.timeout_seconds
        now = time.monotonic()
        seconds = min(means.end - now, most)
        if seconds <= 0:
            return f"{node.name}: no time was left for it"
        known.asked = now
        if not node.address:
            return f"{node.name}: its Node names no address"
        if not ADDRESS.fullmatch(node.address):
            return f"{node.name}: its Node names the address {node.address[:100]!r}, which is none"
        host = f"[{node.address}]" if ":" in node.address else node.address
        url = f"https://{host}:{node.port}/metrics/resource"
        try:
            body = self._fetch(node, url, means, seconds)
        except FetchError as problem:
            known.failed = known.failed or seconds > most / 2  # the round's end may have come too soon for it
            return f"{node.name}: {problem}"
        known.failed = False
        return read_resource_metrics(body, time.time(), time.monotonic())

    def _fetch(self, node: Node, url: str, means: _Means, seconds: float) -> bytes:
        known, policy = self._known[node.name], self._settings.certificates
        if policy == "insecure":
            return fetch(Target(url, means.headers, means.any), seconds, MOST_ANSWER)
        if policy == "verify" or known.pin in ("", SIGNED):
            try:
                body = fetch(Target(url, means.headers, means.verified), seconds, MOST_ANSWER)
                known.pin = SIGNED
                return body
            except NotVerified:
                if policy == "verify" or known.pin == SIGNED:
                    raise
        pinned = Target(url, means.headers, means.any, refuse=lambda shown: _pinned(known, shown))
        try:
            return fetch(pinned, seconds, MOST_ANSWER)
        except NotVerified as other:  # another certificate than before: is it one that the authority signed now?
            try:
                body = fetch(Target(url, means.headers, means.verified), seconds, MOST_ANSWER)
            except NotVerified:
                raise other from None
            known.pin = SIGNED
            return body

    def _readings(self, node: Node, found: KubeletUse) -> Readings:
        known = self._known[node.name]
        cpu = memory = None
        cores = rate(known.processor, found.processor, found.read - known.processor_read)
        if found.processor is not None:
            if not math.isnan(cores):
                cpu = Reading(plausible(share_of(cores, node, 0)), found.processor[0])
            if known.processor is None or not same_look(known.processor, found.processor):
                known.processor, known.processor_read = found.processor, found.read
        if found.memory is not None:
            memory = Reading(plausible(share_of(found.memory[1], node, 1)), found.memory[0])
        return cpu, memory


def _pod_uses(known: _Known, found: KubeletUse) -> dict[str, Amount]:
    between = found.read - known.pods_read
    uses = {
        key: Amount(rate(known.pods.get(key), processor, between), found.pod_memory.get(key, (0.0, math.nan))[1])
        for key, processor in found.pod_processor.items()
    }
    known.pods, known.pods_read = found.pod_processor, found.read
    return uses


def _pinned(known: _Known, shown: bytes) -> str | None:
    digest = hashlib.sha256(shown).hexdigest()
    if known.pin not in ("", digest):
        return "it shows another certificate than before; if that is right, restart the extender"
    known.pin = digest
    return None


def _listed(failures: list[str], nodes: int) -> str:
    more = f" and {len(failures) - EXAMPLES} more" if len(failures) > EXAMPLES else ""
    return f"{len(failures)} of {nodes} kubelets were not read: {'; '.join(failures[:EXAMPLES])}{more}"
