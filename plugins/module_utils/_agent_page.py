# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What an agent says of itself: its /status, on the loopback port that its own configuration names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_gate import ask_health
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import Page, PageTable
from ansible_collections.colocation.kubernetes.plugins.module_utils._plain_yaml import YamlProblem, load_plain

LOOPBACK = "127.0.0.1"
MOST_BYTES = 1 << 20
AskPage = Callable[[str], tuple[int, str]]


def page_url(config: str) -> str:
    """Where the status is, by the agent's configuration; empty where that does not tell."""
    try:
        status = load_plain(config)["status"]
        port = int(status["port"])
    except (YamlProblem, KeyError, TypeError, ValueError):
        return ""
    address = str(status.get("address") or LOOPBACK)
    return f"http://{LOOPBACK if address in ('0.0.0.0', 'localhost') else address}:{port}/status"


def ask_page(url: str) -> tuple[int, str]:
    """HTTP status and body; 0 and the reason where there is no answer."""
    return ask_health(url, MOST_BYTES)


def read_page(url: str, ask: AskPage) -> Page:
    """The page, or one whose `problem` says why there is none."""
    code, said = ask(url)
    if code != 200:
        return Page(url, problem=f"{url} answers {code}" if code else f"{url} does not answer: {said}")
    try:
        return parse_page(url, json.loads(said))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Page(url, problem=f"{url} answers with something else than a status")


def parse_page(url: str, document: Any) -> Page:
    """The page of a status document."""
    return Page(
        url,
        version=str(document["version"]),
        summary=str(document["summary"]),
        problems=tuple(map(str, document["problems"])),
        facts={str(name): str(value) for name, value in document["facts"].items()},
        tables=tuple(
            PageTable(str(one["title"]), tuple(map(str, one["columns"])), tuple(tuple(row) for row in one["rows"]))
            for one in document["tables"]
        ),
    )
