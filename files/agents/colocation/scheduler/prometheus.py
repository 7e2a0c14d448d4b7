# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Use from Prometheus, by queries that are configuration.

Each query is asked twice, for the values and for the times of their samples: a query answers with values that are up to
five minutes old as if they were of now. Both times are Prometheus's own, so the age is right whatever its clock says.
"""

from __future__ import annotations

import base64
import json
import math
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from colocation.scheduler import config
from colocation.scheduler.cluster import Reading
from colocation.scheduler.fetch import BadStatus, FetchError, Target, fetch
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount
from colocation.scheduler.sources import Sampling, SourceError, plausible, share_of, units_look_wrong

MOST_ANSWER = 64 << 20
_PER_UNIT = {"percent": 0.01, "ratio": 1.0, "absolute": 1.0}
Sample = tuple[Mapping[str, str], float, float]  # labels, time of the query, value


class PrometheusSource:
    """Asks the address that answered last; when it does not, the others in turn."""

    def __init__(self, addresses: tuple[str, ...], settings: config.Prometheus, timeout: float, pods: bool) -> None:
        self._addresses = addresses
        self._settings = settings
        self._timeout = timeout
        self._pods = pods
        self._good = 0

    @property
    def name(self) -> str:
        return f"Prometheus at {self._addresses[self._good]}"

    def sample(self, nodes: Mapping[str, Node]) -> Sampling:
        failures = []
        for turn in range(len(self._addresses)):
            number = (self._good + turn) % len(self._addresses)
            try:
                sampling = self._sample(self._addresses[number], nodes)
            except FetchError as problem:
                failures.append(str(problem))
                continue
            self._good = number
            return sampling
        raise SourceError("; ".join(failures))

    def _sample(self, address: str, nodes: Mapping[str, Node]) -> Sampling:
        queries = self._settings.queries
        found: list[Mapping[str, Reading]] = []
        problems: list[str] = []
        useless: dict[int, str] = {}
        for resource, query in enumerate((queries.cpu, queries.memory)):
            # First the times: a sample may land in between, and an old value with its time would keep it out.
            stamps = self._stamps(address, query)
            values = self._ask(address, query)
            shares, times = self._shares(resource, values, nodes)
            problems += _problems(query, queries.node_label, values, nodes, shares)
            if wrong := units_look_wrong(shares, resource):
                useless[resource] = f"{query!r}, taken as {queries.unit}, is not used: {wrong}"
            found.append(_readings(shares, times, stamps))
        if 1 in useless and queries.unit != "absolute":  # the unit is that of both
            useless[0] = useless[1]
        for resource in useless:
            found[resource] = {}
        names = found[0].keys() | found[1].keys()
        return Sampling(
            {name: (found[0].get(name), found[1].get(name)) for name in names},
            self._pod_uses(address) if self._pods else {},
            tuple(problems),
            useless,
        )

    def _stamps(self, address: str, query: str) -> dict[str, tuple[float, float]]:
        try:
            return _by_label(self._ask(address, f"timestamp({query})"), self._settings.queries.node_label)
        except BadStatus:
            self._ask(address, query)  # what is wrong with the query is said better of itself
            raise

    def _shares(
        self, resource: int, values: list[Sample], nodes: Mapping[str, Node]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Each node's share, and when Prometheus was asked."""
        queries = self._settings.queries
        shares: dict[str, float] = {}
        times: dict[str, float] = {}
        for labels, time, value in values:
            name = labels.get(queries.node_label, "")
            if name not in nodes:
                continue
            share = value * _PER_UNIT[queries.unit]
            if queries.unit == "absolute":
                share = share_of(value, nodes[name], resource)
            known = shares.get(name)
            if known is None or not share <= known:  # of two series the busier, and no number before all
                shares[name] = share if known is None or not math.isnan(known) else known
            times[name] = time
        return shares, times

    def _pod_uses(self, address: str) -> dict[str, Amount]:
        queries = self._settings.queries
        uses: dict[str, list[float]] = {}
        for resource, query in enumerate((queries.pod_cpu, queries.pod_memory)):
            for labels, _time, value in self._ask(address, query) if query else []:
                key = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
                uses.setdefault(key, [math.nan, math.nan])[resource] = value
        return {key: Amount(*use) for key, use in uses.items()}

    def _ask(self, address: str, query: str) -> list[Sample]:
        asked = urlencode({"query": query, "timeout": f"{self._timeout:g}s"})
        secure = address.startswith("https:")
        try:
            target = Target(
                f"{address}/api/v1/query?{asked}",
                {"Accept": "application/json", **self._credentials()},
                self._context() if secure else None,
                self._settings.server_name,
            )
        except (OSError, UnicodeDecodeError, ssl.SSLError) as problem:
            raise FetchError(f"the files of the section prometheus can't be used: {problem}") from None
        return read_answer(fetch(target, self._timeout, MOST_ANSWER), query)

    def _credentials(self) -> dict[str, str]:
        settings = self._settings
        if settings.token_file:
            return {"Authorization": f"Bearer {_secret(settings.token_file)}"}
        if settings.username:
            pair = f"{settings.username}:{_secret(settings.password_file)}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def _context(self) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.insecure_skip_verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if settings.certificate_file:
            context.load_cert_chain(settings.certificate_file, settings.key_file)
        return context


def read_answer(body: bytes, query: str) -> list[Sample]:
    """The vector in an answer of Prometheus."""
    try:
        document = json.loads(body)
        data: Any = document["data"]
        if data["resultType"] != "vector":
            raise FetchError(f"{query!r} gives a {data['resultType']}; a value for each node is wanted (a vector)")
        return [(one["metric"], float(one["value"][0]), float(one["value"][1])) for one in data["result"]]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as problem:
        raise FetchError(f"the answer to {query!r} is not Prometheus's: {problem!r}") from None


def _by_label(samples: list[Sample], label: str) -> dict[str, tuple[float, float]]:
    """Time of the query and of the sample, by a label; of several samples the oldest."""
    found: dict[str, tuple[float, float]] = {}
    for labels, time, stamp in samples:
        name = labels.get(label, "")
        if math.isfinite(stamp) and (name not in found or stamp < found[name][1]):
            found[name] = (time, stamp)
    return found


def _readings(
    shares: Mapping[str, float], times: Mapping[str, float], stamps: Mapping[str, tuple[float, float]]
) -> dict[str, Reading]:
    readings = {}
    for name, share in shares.items():
        stamp = stamps.get(name, (times[name], times[name]))
        readings[name] = Reading(plausible(share), stamp[1], max(stamp[0] - stamp[1], 0.0))
    return readings


def _problems(
    query: str, label: str, values: list[Sample], nodes: Mapping[str, Node], shares: Mapping[str, float]
) -> list[str]:
    problems = []
    missing = len(nodes.keys() - shares.keys())
    without = sum(label not in labels for labels, _time, _value in values)
    if not values:
        problems.append(f"{query!r} gives nothing; is the recording rule there?")
    elif without:
        problems.append(
            f"{query!r}: {without} of {len(values)} series have no label {label!r}; the relabelling is missing"
        )
    if missing and values:
        problems.append(f"{query!r} gives nothing for {missing} of {len(nodes)} nodes")
    return problems


def _secret(file: str) -> str:
    secret = Path(file).read_text().strip()
    if not secret.isprintable():
        raise OSError(f"{file} has characters that no secret has")
    return secret
