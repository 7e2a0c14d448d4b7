# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command line that every agent has."""

from __future__ import annotations

import logging
import signal
import socket
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from colocation.common import command_line
from colocation.common.command_line import BAD_CONFIG, Agent, Place, main
from colocation.common.http_server import HttpServer
from colocation.common.metrics import Registry
from colocation.common.pages import answering
from colocation.common.service import Frame, run
from colocation.common.settings import Settings
from colocation.common.status import Status


@dataclass(frozen=True)
class Config:
    port: int = 1
    number: int = 0


def make(_registry: Registry) -> Any:
    raise AssertionError("this command starts no agent")


AGENT = Agent(
    module="colocation.example",
    about="An example.",
    schema=Config,
    config_file="/nowhere/example.yaml",
    place=lambda config: Place("127.0.0.1", config.port),
    log_level=lambda _config: "info",
    make=make,
)


def test_a_configuration_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: 1")
    assert main(AGENT, ["--config", str(file), "--check-config"]) == 0
    assert capsys.readouterr().out == f"{file}: good\n"
    file.write_text("nmber: 1\nport: x")
    assert main(AGENT, ["--config", str(file), "--check-config"]) == BAD_CONFIG
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f'{file}:1: nmber: unknown key; did you mean "number"?',
        f'{file}:2: port: must be a whole number, not "x"',
    ]


def test_a_bad_configuration_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(AGENT, []) == BAD_CONFIG
    assert "/nowhere/example.yaml:1: can't be read" in capsys.readouterr().err


@pytest.mark.parametrize(("problems", "code"), [((), 0), (("it is ill",), 1)])
def test_status_shows_what_the_agent_says(
    problems: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = Status("example", "1", "fine", problems)
    server = HttpServer("127.0.0.1", 0, answering(lambda: status, Registry(), lambda: 0.0))
    server.start()
    file = tmp_path / "a.yaml"
    file.write_text(f"port: {server.port}")
    try:
        assert main(AGENT, ["status", "--config", str(file)]) == code
        assert "fine" in capsys.readouterr().out
        assert main(AGENT, ["--config", str(file), "status", "--json"]) == code
        assert '"summary": "fine"' in capsys.readouterr().out
    finally:
        server.close()
    assert main(AGENT, ["status", "--config", str(file)]) == 2
    assert "does the service run?" in capsys.readouterr().err


@dataclass
class Recorder:
    """A service and a notifier that write down what they are told; ends itself by a signal."""

    told: list[str] = field(default_factory=list)
    signals: list[signal.Signals] = field(default_factory=list)
    watchdog_seconds: float = 0.03
    problems: tuple[str, ...] = ()

    def configure(self, config: Config) -> None:
        self.told.append(f"configure {config.number}")

    def tick(self, alive: Callable[[], None]) -> None:
        alive()
        self.told.append("tick")
        if self.signals:
            signal.raise_signal(self.signals.pop(0))
            raise RuntimeError("a round that fails ends nothing")

    def status(self) -> Status:
        return Status("example", "1", "fine", self.problems)

    def stop(self) -> None:
        self.told.append("stop")

    def ready(self, _status: str = "") -> None:
        self.told.append("READY")

    def reloading(self) -> None:
        self.told.append("RELOADING")

    def stopping(self) -> None:
        self.told.append("STOPPING")

    def watchdog(self) -> None:
        self.told.append("WATCHDOG")


def run_recorder(recorder: Recorder, settings: Settings[Config], port: int = 0, level: str = "info") -> Registry:
    """Run it as a service until it ends itself; its metrics."""
    registry = Registry()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    command_line.service.block_signals()
    try:
        notifier: Any = recorder
        levels = {0: "info", 1: level}
        where = ("127.0.0.1", port, 0.01)
        run(Frame("example", settings, recorder, registry, notifier, *where, lambda config: levels[config.number]))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return registry


def test_a_service_is_framed_by_what_systemd_wants_to_know(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: 1")
    recorder = Recorder(signals=[signal.SIGHUP, signal.SIGTERM], problems=("it is ill",))
    registry = run_recorder(recorder, Settings(Config, str(file)))
    expected = ["configure 1", "WATCHDOG", "tick", "READY", "RELOADING", "configure 1", "READY"]
    assert recorder.told == [*expected, "WATCHDOG", "WATCHDOG", "tick", "STOPPING", "stop"]
    assert "colocation_tick_failures_total 2\n" in registry.render()
    assert 'colocation_config_reloads_total{result="taken"} 1\n' in registry.render()
    assert "colocation_problems 1\n" in registry.render()


class TakenAddress(Recorder):
    """Something else holds the address of its page for two ticks; then it waits for the page to be there."""

    def __init__(self) -> None:
        super().__init__()
        self.other = socket.create_server(("127.0.0.1", 0))
        self.port = self.other.getsockname()[1]
        self.summaries: list[str] = []
        self.page = ""

    def tick(self, alive: Callable[[], None]) -> None:
        super().tick(alive)
        if self.told.count("tick") < 3:
            return
        if self.other.fileno() >= 0:
            self.other.close()
            return
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=10) as answer:
            self.page = answer.read().decode()
        signal.raise_signal(signal.SIGTERM)

    def status(self, line: str = "") -> Status:
        if line:  # asked as the notifier
            self.summaries.append(line)
        return super().status()

    def ready(self, status: str = "") -> None:
        self.summaries.append(status)


def test_a_page_that_can_not_be_shown_stops_no_work_and_is_shown_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: 1")
    service = TakenAddress()
    run_recorder(service, Settings(Config, str(file)), service.port)
    first, last = service.summaries
    told = f"fine; no status page at 127.0.0.1:{service.port} (Address already in use"
    assert first.startswith(told) and last == "fine"
    assert (service.page, service.told[-1]) == ("ok\n", "stop")
    assert [record.levelname for record in caplog.records if "no status page" in record.message] == ["ERROR"]


def test_a_file_that_is_bad_at_the_start_is_counted_as_rejected(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: [")
    registry = run_recorder(Recorder(signals=[signal.SIGTERM]), Settings(Config, str(file), Config()))
    assert 'colocation_config_reloads_total{result="rejected"} 1\n' in registry.render()


def test_a_reload_takes_the_log_level_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", root.level)
    file = tmp_path / "a.yaml"
    file.write_text("number: 0")
    settings = Settings(Config, str(file))
    file.write_text("number: 1")
    run_recorder(Recorder(signals=[signal.SIGHUP, signal.SIGTERM]), settings, level="error")
    assert root.level == logging.ERROR


def test_an_agent_may_have_commands_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def more(parser: Any, commands: Any) -> None:
        parser.add_argument("--forget", dest="act", action="store_const", const=lambda asked: len(asked.config))
        commands.add_parser("draw").set_defaults(act=lambda _asked: print("drawn") or 3)

    agent = replace(AGENT, program="example", more=more)
    assert main(agent, ["draw"]) == 3 and capsys.readouterr().out == "drawn\n"
    assert main(agent, ["--config", "12345", "--forget"]) == 5
    with pytest.raises(SystemExit):
        main(agent, ["--help"])
    assert capsys.readouterr().out.startswith("usage: example ")
