# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the agent's web server shows: `/` for humans, `/status` JSON, `/healthz`, `/livez`, `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from colocation.common import metrics
from colocation.common.http_exchange import Answer, Request
from colocation.common.status import Status, to_json
from colocation.common.status_page import to_html

HUNG_SECONDS = 60.0


def answering(
    status: Callable[[], Status], registry: metrics.Registry, silent: Callable[[], float]
) -> Callable[[Request], Answer]:
    """What answers requests from the agent's status and metrics, and from how long it gave no sign of life."""

    def respond(request: Request) -> Answer:
        if request.path == "/metrics":
            return Answer(200, registry.render(), metrics.CONTENT_TYPE)
        if request.path == "/healthz":
            return health(status())
        if request.path == "/livez":
            return liveness(silent())
        if request.path == "/status":
            return Answer(200, to_json(status()), "application/json")
        if request.path == "/":
            return Answer(200, to_html(status()), "text/html; charset=utf-8")
        return Answer(404, "There are /, /status, /healthz, /livez and /metrics.\n")

    return respond


def health(status: Status) -> Answer:
    """200 for a healthy agent; else 503 and a line for each problem."""
    if status.healthy:
        return Answer(200, "ok\n")
    return Answer(503, "".join(problem + "\n" for problem in status.problems))


def liveness(silent: float) -> Answer:
    """503 where only a new process helps; no trouble with others, such as the API, is that."""
    if silent <= HUNG_SECONDS:
        return Answer(200, "ok\n")
    return Answer(503, f"No round of work has ended for {silent:.0f} s.\n")
