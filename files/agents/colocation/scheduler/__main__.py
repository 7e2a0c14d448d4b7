# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""`python3 -m colocation.scheduler`, or the zipapp."""

from __future__ import annotations

import argparse
import http.client
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from colocation.common import command_line
from colocation.scheduler.config import Config

if TYPE_CHECKING:
    from colocation.common.metrics import Registry
    from colocation.scheduler.agent import ExtenderAgent

SWITCH_SECONDS = 0.0005  # how long a request waits for a thread that measures or watches; Python's own is 5 ms


def _make(registry: Registry) -> ExtenderAgent:
    from colocation.scheduler.agent import ExtenderAgent  # other commands do without it

    sys.setswitchinterval(SWITCH_SECONDS)
    return ExtenderAgent(registry)


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--profile", help="a schedulerName: how its nodes stand now")
    what.add_argument("--pod", metavar="NAMESPACE/NAME", help="a pod that was scored lately")
    parser.add_argument("--node", action="append", default=[], help="only this node; may be given several times")
    parser.add_argument("--most", type=int, default=200, metavar="N", help="so many nodes, the best; default: 200")
    parser.add_argument("--json", action="store_true", help="for programs")


def _explain(config: Config, asked: argparse.Namespace) -> int:
    """Ask the running extender and print what it says."""
    query = {"profile": asked.profile, "pod": asked.pod, "node": asked.node, "most": asked.most}
    query["format"] = "" if asked.json else "text"
    path = "/explain?" + urlencode({name: value for name, value in query.items() if value}, doseq=True)
    connection = http.client.HTTPConnection(config.listen.address, config.listen.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as problem:
        place = f"{config.listen.address}:{config.listen.port}"
        print(f"the extender at {place} does not answer ({problem}); does it run?", file=sys.stderr)
        return 2
    finally:
        connection.close()
    print(text, end="", file=sys.stdout if answer.status == 200 else sys.stderr)
    return 0 if answer.status == 200 else 1


AGENT = command_line.Agent(
    module="colocation.scheduler",
    about="Scores nodes for kube-scheduler by their real use.",
    schema=Config,
    config_file="/etc/colocation/scheduler-extender.yaml",
    place=lambda config: command_line.Place(config.status.address, config.status.port),
    log_level=lambda config: config.log_level,
    make=_make,
    commands=(
        command_line.Command(
            "explain", "show why nodes score as they do: inputs, estimate and score", _explain_arguments, _explain
        ),
    ),
)


def main() -> int:
    """What a zipapp starts."""
    return command_line.main(AGENT)


if __name__ == "__main__":
    sys.exit(main())
