# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command line that every agent has: run, `--check-config`, `status`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from colocation import __version__
from colocation.common import journal, notify, service, status_client
from colocation.common.config import Between, ConfigError
from colocation.common.metrics import Registry
from colocation.common.settings import Settings, read
from colocation.common.status import to_json, to_text

C = TypeVar("C")
BAD_CONFIG = 78  # sysexits' EX_CONFIG, which systemd knows by name
CALLED_FROM = "COLOCATION_CALLED_FROM"  # where relative paths begin, for commands that have to run in the release

Port = Annotated[int, Between(1, 65535)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the agent's page is."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Agent(Generic[C]):
    """What tells one agent's command line from another's."""

    module: str  # python -m <module>
    about: str
    schema: type[C]
    config_file: str
    place: Callable[[C], Place]
    log_level: Callable[[C], str]
    make: Callable[[Registry], service.Service[C]]  # imports what is large: other commands do without it
    program: str = ""  # what users call it, if they don't call the module
    more: Callable[[argparse.ArgumentParser, Commands], None] | None = None  # adds commands whose `act` does them
    fallback: Callable[[str], C] | None = None  # what it runs with where its file is bad; without it, it does not run


Commands = Any  # argparse's own type for them is private


def main(agent: Agent[C], arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status."""
    asked = _parser(agent).parse_args(arguments)
    with contextlib.suppress(OSError):
        os.chdir(os.environ.get(CALLED_FROM) or ".")
    try:
        if asked.act is not None:
            return int(asked.act(asked))
        if asked.command == "status":
            return _show_status(agent, asked)
        if asked.check_config:
            read(agent.schema, asked.config)
            print(f"{asked.config}: good")
            return 0
        return _run(agent, asked.config)
    except ConfigError as problem:
        _say(str(problem))
        return BAD_CONFIG


def _parser(agent: Agent[C]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=agent.program or f"python3 -m {agent.module}", description=agent.about)
    parser.set_defaults(act=None)
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", default=agent.config_file, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check-config", action="store_true", help="only say whether the configuration is good")
    commands = parser.add_subparsers(dest="command", metavar="[command]")
    status = commands.add_parser("status", help="show how the running agent is; exit status 1 if not healthy")
    status.add_argument("--config", default=argparse.SUPPRESS, metavar="FILE", help=f"default: {agent.config_file}")
    status.add_argument("--json", action="store_true", help="the document as it is at /status")
    if agent.more is not None:
        agent.more(parser, commands)
    return parser


def _show_status(agent: Agent[C], asked: argparse.Namespace) -> int:
    place = agent.place(read(agent.schema, asked.config))
    try:
        status = status_client.ask(place.address, place.port)
    except status_client.NoStatus as problem:
        print(problem, file=sys.stderr)
        return 2
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    try:
        sys.stdout.write(to_json(status) if asked.json else to_text(status, color))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # `| head` has seen enough
    return 0 if status.healthy else 1


def _run(agent: Agent[C], file: str) -> int:
    settings = Settings(agent.schema, file, None if agent.fallback is None else agent.fallback(file))
    os.umask(0o077)
    journal.set_up(agent.log_level(settings.current))
    service.block_signals()
    registry = Registry()
    place = agent.place(settings.current)
    name = agent.module.rpartition(".")[2]
    if settings.rejected is not None:
        journal.Log(name).error("configuration rejected, running without it", problems=settings.rejected)
    notifier = notify.from_environment()
    try:
        frame = service.Frame(
            name,
            settings,
            agent.make(registry),
            registry,
            notifier,
            place.address,
            place.port,
            log_level=agent.log_level,
        )
        service.run(frame)
    except OSError as problem:
        journal.Log(name).error("can't run", error=problem)
        return 1
    return 0


def _say(text: str) -> None:
    prefix = "<3>" if journal.goes_to_the_journal(os.environ, 2) else ""
    for line in text.splitlines():
        print(prefix + line, file=sys.stderr)
