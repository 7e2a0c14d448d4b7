# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where the story plays: the cluster tool, the nodes' shells, playbooks, the API."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..process import child
from ..setup import Session
from .api import Api
from .page import Happened
from .plays import Played, Progress, timed, why
from .plot import clock
from .readings import Values
from .steps import Trouble
from .timeline import Key, Series, Timeline

T = TypeVar("T")

# What ssh says before it got anywhere: nothing was done on the node, so another try does nothing twice.
NOT_REACHED = ("Connection timed out", "Connection refused", "No route to host", "kex_exchange_identification")
PATIENT = {"ANSIBLE_TIMEOUT": "60", "ANSIBLE_SSH_RETRIES": "2"}  # emulated nodes on a busy machine take their time


class Scene:
    """Everything that steps may do. Output of programs is in `logs`; `say` is for who watches."""

    def __init__(self, session: Session, name: str, inventory: Path, nodes: Sequence[str]) -> None:
        self.name = name
        self.nodes = list(nodes)
        self.inventory = inventory
        self.logs = session.logs
        self.texts: dict[str, str] = {}  # what programs printed that belongs on the page, by title
        self.began = time.time()  # by the clock on the wall, as the API's stamps are
        self.recap: list[str] = []  # of the last playbook
        self.played: list[Played] = []
        self.before: dict[str, list[str]] = {}  # what stood on each node and in the cluster before the first run
        self.collection = session.stage.collection
        self.facts: dict[str, Any] = {}  # what one step leaves for the next
        self._session = session
        self._guard = threading.Lock()
        self._timeline = Timeline()
        self._start = time.monotonic()
        self._heard: dict[str, Happened] = {}
        self._api: Api | None = None

    # -- the teller ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        """From now on it is told."""
        self.began, self._start = time.time(), time.monotonic()

    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start

    def pause(self, seconds: float) -> None:
        """Between two looks at a condition."""
        time.sleep(seconds)

    def say(self, text: str) -> None:
        """A line for who watches."""
        self._session.report.say(text)

    # -- what is measured ---------------------------------------------------------------------------------

    def record(self, values: Values) -> None:
        """Values of this moment; any thread may."""
        with self._guard:
            self._timeline.record(self.now(), values)

    def heard(self, key: str, event: Happened) -> None:
        """An Event; the same one may come again."""
        with self._guard:
            self._heard.setdefault(key, event)

    def events(self) -> tuple[Happened, ...]:
        """All Events that were heard of."""
        with self._guard:
            return tuple(self._heard.values())

    def series(self) -> Series:
        """All that was measured."""
        with self._guard:
            return self._timeline.series()

    def last(self, key: Key) -> float | None:
        """The latest value of a series."""
        with self._guard:
            return self._timeline.last(key)

    # -- programs -----------------------------------------------------------------------------------------

    @property
    def command(self) -> str:
        """The cluster tool of the checkout, not of the stage: its machines outlive this run."""
        return str(self._session.places.checkout / "tests" / "cluster" / "cluster")

    @contextmanager
    def lasting(self, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A command of the cluster tool that runs along; its output is a pipe."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as stream:
            try:
                with child(
                    [self.command, words[0], "--name", self.name, *words[1:]], self._session.variables,
                    self._session.stage.collection, writing,
                ) as process:  # fmt: skip
                    os.close(writing)
                    writing = -1
                    process.stdout = stream
                    yield process
            finally:
                if writing >= 0:
                    os.close(writing)

    def tool(self, *words: str, limit: float = 300.0) -> str:
        """The output of a command of the cluster tool."""
        return self._output([self.command, words[0], "--name", self.name, *words[1:]], limit)

    def ssh(self, node: str, script: str, limit: float = 90.0) -> str:
        """The output of a shell script on a node; on a busy machine ssh may need more than one try to get there."""
        until = self.now() + limit
        while True:
            try:
                return self.tool("ssh", node, f"sh -c {shlex.quote(script)}", limit=limit)
            except Trouble as trouble:
                if self.now() > until or not any(sign in str(trouble) for sign in NOT_REACHED):
                    raise
                self.pause(1.0)

    def cluster_stands(self) -> list[str]:
        """What the cluster's objects say, as scenarios look at it too."""
        script = self.collection / "molecule" / "shared" / "cluster_stands.py"
        words = [sys.executable, str(script), self.command, "kubectl", "--name", self.name]
        return self._output(words, 180).splitlines()

    def on_all(self, ask: Callable[[str], T]) -> dict[str, T]:
        """Ask all nodes at the same time."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return dict(zip(self.nodes, pool.map(ask, self.nodes), strict=True))

    def _output(self, command: Sequence[str], limit: float) -> str:
        with tempfile.TemporaryFile() as out:
            with child(command, self._session.variables, self._session.stage.collection, out.fileno()) as process:
                try:
                    status = process.wait(limit)
                except subprocess.TimeoutExpired:
                    raise Trouble(f"{' '.join(command[1:])[:200]}: no end within {limit:.0f} s") from None
            out.seek(0)
            text = out.read().decode(errors="replace")
        if status != 0:
            raise Trouble(f"{' '.join(command[1:])[:200]}: exit {status}\n{text[-1500:].rstrip()}", status)
        return text

    def play(self, book: str, *options: str) -> None:
        """Run one of our playbooks; its output goes to a log, its plays are said."""
        collection = self._session.stage.collection
        command: list[str | Path] = [
            self._session.tools.command("ansible-playbook"), "-i", self.inventory, *options,
            collection / "playbooks" / book,
        ]  # fmt: skip
        log = self.logs / f"{len(list(self.logs.glob('play-*'))) + 1:02}-{book}.log".replace("/", "-")
        log = log.with_name(f"play-{log.name}")
        begin, progress, heard = self.now(), Progress(), list[tuple[str, float]]()
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as stream, log.open("wb") as kept:
            try:
                with child(command, {**self._session.variables, **PATIENT}, collection, writing) as process:
                    os.close(writing)
                    writing = -1
                    for line in stream:
                        kept.write(line)
                        kept.flush()
                        for phrase in progress.line(line.decode(errors="replace")):
                            heard.append((phrase, self.now()))
                            self.say(f"      {clock(self.now() - begin)}  {phrase}")
                    status = process.wait()
            finally:
                if writing >= 0:
                    os.close(writing)
        self.recap = progress.recap
        if status != 0:
            told = "\n".join(why(log.read_text(errors="replace")))
            raise Trouble(f"playbooks/{book} ended with {status} at the task {progress.task!r}\n{told}\nlog: {log}")
        self.played.append(timed(book, begin, heard, self.now(), progress.changed))

    # -- the API ------------------------------------------------------------------------------------------

    @property
    def api(self) -> Api:
        """The cluster's API; inside `with_api` only."""
        if self._api is None:
            raise Trouble("there is no way to the API yet")
        return self._api

    @contextmanager
    def with_api(self) -> Iterator[None]:
        """A way to the API for the time of the block."""
        with tempfile.TemporaryDirectory(prefix="colocation-demo-") as folder:
            socket = Path(folder, "api")
            with self.lasting(["kubectl", "proxy", f"--unix-socket={socket}"]) as process:
                until = self.now() + 60
                while not socket.exists():
                    if process.poll() is not None or self.now() > until:
                        said = process.stdout.read().decode(errors="replace") if process.stdout else ""
                        raise Trouble(f"kubectl proxy did not come up: {said.strip()}")
                    self.pause(0.1)
                self._api = Api(socket)
                try:
                    yield
                finally:
                    self._api = None

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the story's namespace and all others."""
        return list(self.api.get("/api/v1/pods").get("items", ()))

    def kubeconfig(self) -> dict[str, Any]:
        """The administrator's."""
        document: dict[str, Any] = json.loads(self.tool("kubectl", "config", "view", "--raw", "-o", "json"))
        return document
