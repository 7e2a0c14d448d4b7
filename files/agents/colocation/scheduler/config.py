# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the extender's configuration may say. An empty file is a good one: all has a default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal
from urllib.parse import urlsplit

from colocation.common.command_line import Port
from colocation.common.config import Between, ip_address
from colocation.scheduler.quantity import is_quantity

Seconds = Annotated[float, Between(0.1, 86_400)]
Share = Annotated[float, Between(0, 1)]  # of a node's capacity
Resource = Literal["cpu", "memory"]
Weight = Annotated[float, Between(0, 1000)]
MOST_SAMPLES = 720  # in a window: 110 MiB of 5,000 nodes, and most of a second a round to look through them


def addresses(text: str) -> tuple[str, ...]:
    """One address, or several with commas between."""
    return tuple(filter(None, (part.strip().rstrip("/") for part in text.split(","))))


def web_addresses(text: str) -> str | None:
    """A check: addresses of Prometheus, or none."""
    for address in addresses(text):
        try:
            place = urlsplit(address)
            good = place.scheme in ("http", "https") and bool(place.hostname) and (place.port or 1) > 0
        except ValueError:
            good = False
        if not good:
            return f'"{address}" is no address, such as "http://10.96.0.102:9090"'
        if place.username or place.password or place.query or place.fragment:
            return f'"{place.hostname}": the address has no user or query; name them in the section prometheus'
    return None


def absolute(path: str) -> str | None:
    """A check: a whole path, or none."""
    return None if not path or path.startswith("/") else f'"{path}" does not begin with /'


def no_wrap(text: str) -> str | None:
    """A check: something to ask Prometheus."""
    return None if text.strip() else "is empty; leave the key out for the default"


def account_name(text: str) -> str | None:
    """A check: a service account, or none."""
    good = not text or re.fullmatch(r"[a-z0-9-]+/[a-z0-9.-]+", text)
    return None if good else f'"{text}" is no service account, such as "kube-system/kubelets"'


Path = Annotated[str, absolute]


@dataclass(frozen=True, slots=True)
class Place:
    """An address and port to listen at."""

    address: Annotated[str, ip_address] = "127.0.0.1"
    port: Port = 9463


@dataclass(frozen=True, slots=True)
class Listen:
    """Where kube-scheduler asks. Nobody else should: who asks, books."""

    address: Annotated[str, ip_address] = "127.0.0.1"
    port: Port = 9464


@dataclass(frozen=True, slots=True)
class Queries:
    """What to ask for. The defaults are the rules of the system that this replaces: a percentage for each `node`."""

    cpu: Annotated[str, no_wrap] = "node_cpu_usage_avg_5m"
    memory: Annotated[str, no_wrap] = "node_mem_usage_avg_5m"
    unit: Literal["percent", "ratio", "absolute"] = "percent"  # absolute: cores and bytes
    node_label: Annotated[str, no_wrap] = "node"
    # use of each pod, cores and bytes by `namespace` and `pod`; only estimate "learned" needs them
    pod_cpu: str = ""
    pod_memory: str = ""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """How to prove who we are, and who Prometheus is. Secrets stand in files, which are read again for each round."""

    queries: Queries = field(default_factory=Queries)
    ca_file: Path = ""
    server_name: str = ""  # in the certificate, if it is not the host
    certificate_file: Path = ""
    key_file: Path = ""
    token_file: Path = ""
    username: str = ""
    password_file: Path = ""
    insecure_skip_verify: bool = False

    def complaints(self) -> Iterator[tuple[str, str]]:
        if bool(self.certificate_file) != bool(self.key_file):
            yield "certificate_file", "a certificate and its key_file belong together; one is missing"
        if bool(self.username) != bool(self.password_file):
            yield "username", "username and password_file belong together; one is missing"
        if self.username and self.token_file:
            yield "token_file", "either a token_file or a username, not both"


@dataclass(frozen=True, slots=True)
class Kubelets:
    """The kubelets asked directly, at /metrics/resource."""

    # Whom to believe, before our token is sent: `verify` takes only what the cluster's authority signed; `pin` also
    # takes the certificate that a kubelet made itself (kubeadm's default) and showed first; `insecure` takes any.
    certificates: Literal["verify", "pin", "insecure"] = "pin"
    # The account whose token kubelets are shown, as namespace/name; it needs no right but `nodes/metrics`, and we need
    # `create` of its `serviceaccounts/token`. Empty: our own token.
    account: Annotated[str, account_name] = ""
    at_a_time: Annotated[int, Between(1, 128)] = 16
    timeout_seconds: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class Window:
    """Which of a node's measured values counts."""

    kind: Literal["last", "mean", "percentile", "peak"] = "last"
    seconds: Seconds = 300.0
    percentile: Annotated[float, Between(0, 100)] = 95.0


@dataclass(frozen=True, slots=True)
class Oversell:
    """Requests count as real + (requested - real) * factor, and never less than floor * requested."""

    factor: Share = 0.5
    floor: Share = 0.3


@dataclass(frozen=True, slots=True)
class Filter:
    """Nodes that would be loaded so far are not offered at all. Absent: that resource refuses nothing."""

    cpu: Share | None = None
    memory: Share | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """How pods of one schedulerName are placed."""

    weights: Mapping[Resource, Weight] = field(default_factory=lambda: MappingProxyType({"memory": 1.0}))
    window: Window = field(default_factory=Window)
    full_at: Annotated[float, Between(0.01, 1)] = 0.95  # loaded so far, a node scores 0
    climb_seconds: Annotated[float, Between(0, 3600)] = 30.0  # a climbing node counts as it will be then; 0: as it is
    stale: Literal["requests", "last", "full"] = "requests"  # what a node without a fresh sample counts as
    oversell: Oversell | None = None
    filter: Filter = field(default_factory=Filter)

    def complaints(self) -> Iterator[tuple[str, str]]:
        if not any(self.weights.values()):
            yield "weights", "at least one weight must be above 0"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a pod that says nothing is taken for."""

    cpu: Annotated[str, is_quantity] = "250m"
    memory: Annotated[str, is_quantity] = "200Mi"


@dataclass(frozen=True, slots=True)
class InFlight:
    """Pods that were placed since their node was measured."""

    enabled: bool = True
    estimate: Literal["request", "limit", "learned"] = "request"
    unknown: Estimate = field(default_factory=Estimate)
    # Until when a pod counts beside what is measured, if the measured value has not grown by it before. As long as the
    # metrics lag behind: the default rules average over five minutes.
    hold_seconds: Seconds = 300.0
    start_seconds: Seconds = 600.0  # the most that is waited for a pod to start, before the hold begins
    # How long our own favourite is booked before a binding must be seen. kube-scheduler binds 50 pods a second, and
    # scores many more: of a burst of 17,000 the last waits that long.
    booking_seconds: Seconds = 300.0
    # extended resources that are memory: each stands for that much
    memory_resources: Mapping[str, Annotated[str, is_quantity]] = field(
        default_factory=lambda: MappingProxyType({"test.com/colocation-memory": "512Mi"})
    )


def _profiles() -> Mapping[str, Profile]:
    both: Mapping[Resource, float] = MappingProxyType({"cpu": 1.0, "memory": 1.0})
    return MappingProxyType(
        {
            "mem-real-usage-scheduler": Profile(),
            "cpu-real-usage-scheduler": Profile(MappingProxyType({"cpu": 1.0})),
            "real-usage-scheduler": Profile(both),
            "oversell-scheduler": Profile(both, Window("peak"), oversell=Oversell()),
        }
    )


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. The three names in another style are those of the scheduler that this replaces."""

    prometheusApiAddr: Annotated[str, web_addresses] = ""  # several: with commas between
    queryMetricTimeSeconds: Seconds = 10.0  # the longest that a query may take
    queryMetricIntervalSeconds: Annotated[float, Between(1, 3600)] = 10.0  # between queries
    source: Literal["auto", "prometheus", "metrics-api", "kubelets"] = "auto"  # Prometheus if named, else kubelets
    stale_seconds: Annotated[float, Between(1, 86_400)] = 180.0  # a value that did not change its time for so long
    prometheus: Prometheus = field(default_factory=Prometheus)
    kubelets: Kubelets = field(default_factory=Kubelets)
    kubeconfig: Path = ""  # empty: the account that Kubernetes gives the pod
    profiles: Mapping[str, Profile] = field(default_factory=_profiles)
    in_flight: InFlight = field(default_factory=InFlight)
    # Which nodes an answer names. `best`: only the one that gets 10. Where no other score counts it is the same choice,
    # and kube-scheduler has less to read.
    answer: Literal["all", "best"] = "all"
    listen: Listen = field(default_factory=Listen)
    status: Place = field(default_factory=Place)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_decisions: bool = False  # one line for each pod, with what it was decided by

    def complaints(self) -> Iterator[tuple[str, str]]:
        if not self.profiles:
            yield "profiles", "at least one profile is needed"
        if self.source == "prometheus" and not addresses(self.prometheusApiAddr):
            yield "prometheusApiAddr", "is missing, and source is prometheus"
        queries = self.prometheus.queries
        learns = self.in_flight.estimate == "learned" and self.chosen_source == "prometheus"
        if learns and not (queries.pod_cpu and queries.pod_memory):
            yield "in_flight", "estimate learned needs prometheus.queries.pod_cpu and pod_memory"
        for name, profile in self.profiles.items():
            samples = profile.window.seconds / self.queryMetricIntervalSeconds
            if profile.window.kind != "last" and samples > MOST_SAMPLES:
                most = MOST_SAMPLES * self.queryMetricIntervalSeconds
                yield (
                    "profiles",
                    f"{name}: the window has {samples:.0f} samples of each node, more than {MOST_SAMPLES}; at most "
                    f"{most:g} seconds with this queryMetricIntervalSeconds",
                )
        if self.stale_seconds < 2 * self.queryMetricIntervalSeconds:
            yield "stale_seconds", "must be at least twice queryMetricIntervalSeconds, or fresh values are stale"
        if (self.listen.address, self.listen.port) == (self.status.address, self.status.port):
            yield "listen", "the status page has this address and port"

    @property
    def chosen_source(self) -> str:
        """The source that is asked."""
        if self.source != "auto":
            return self.source
        return "prometheus" if addresses(self.prometheusApiAddr) else "kubelets"
