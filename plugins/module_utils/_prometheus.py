# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Asks a Prometheus over HTTP: queries, rules, targets. It only reads; what is no answer is an error."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

MOST = 32 << 20  # bytes of an answer


class PrometheusError(Exception):
    """There was no answer, or a refusal; the text says of what."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its labels and its value now."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a Prometheus is and how to prove who asks."""

    address: str
    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    verify: bool = True
    timeout: float = 10.0


class Prometheus:
    """One server."""

    def __init__(self, reach: Reach) -> None:
        self.address = reach.address.rstrip("/")
        self._reach = reach
        context: ssl.SSLContext | None = None
        if self.address.startswith("https:"):
            context = ssl.create_default_context(cafile=reach.ca_file or None)
            if not reach.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def query(self, expression: str) -> list[Series]:
        """What an expression is now, one value for each series."""
        data = self._ask("query", {"query": expression})
        if data.get("resultType") != "vector":
            raise PrometheusError(
                f"{self.address}: {expression!r} is a {data.get('resultType')}, not one value a series"
            )
        return [Series(dict(one["metric"]), float(one["value"][1])) for one in data.get("result") or []]

    def recorded(self) -> dict[str, str]:
        """The names that rules record, and of each the last error."""
        groups = self._ask("rules", {"type": "record"}).get("groups") or []
        rules = [rule for group in groups for rule in group.get("rules") or []]
        return {str(rule.get("name")): str(rule.get("lastError") or "") for rule in rules}

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped: labels, discoveredLabels, health, lastError."""
        found: list[dict[str, Any]] = self._ask("targets", {"state": "active"}).get("activeTargets") or []
        return found

    def _ask(self, what: str, query: Mapping[str, str]) -> dict[str, Any]:
        url = f"{self.address}/api/v1/{what}?{urlencode(query)}"
        try:
            request = urllib.request.Request(url, headers=self._headers())
            with self._opener.open(request, timeout=self._reach.timeout) as answer:
                text = answer.read(MOST + 1)
        except urllib.error.HTTPError as problem:
            with problem:
                said = _document(problem.read(MOST)).get("error") or problem.reason
            raise PrometheusError(f"{self.address}: {problem.code} {said}") from None
        except (OSError, ValueError, http.client.HTTPException) as problem:
            reason = getattr(problem, "reason", None) or problem
            raise PrometheusError(f"{self.address} can't be asked: {reason}") from None
        document = _document(text)
        if document.get("status") != "success" or not isinstance(document.get("data"), dict):
            raise PrometheusError(f"{self.address} does not answer as Prometheus does; is it the right address?")
        data: dict[str, Any] = document["data"]
        return data

    def _headers(self) -> dict[str, str]:
        reach = self._reach
        if reach.token:
            return {"Authorization": f"Bearer {reach.token}"}
        if reach.username:
            known = base64.b64encode(f"{reach.username}:{reach.password}".encode()).decode()
            return {"Authorization": f"Basic {known}"}
        return {}


def _document(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
