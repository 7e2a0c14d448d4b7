# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The first process of a cluster's own world.

A cluster runs in a PID and network namespace of its own, and this is process 1 there: it starts what the tool
asks for, reaps what ends, and when it ends, the kernel ends all the rest and takes the network down with it.
So nothing can be left over, however the tool was killed. It asks for nothing but the standard library.

Requests are one JSON object each on a unix socket: {"start": {name, argv, log, env}}, {"again": {name}},
{"signal": {name, number}}, {"status": {}}. The answer is one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Child:
    """A process that we started; `status` is its exit code once it has ended."""

    pid: int
    argv: list[str]
    log: str
    env: dict[str, str]
    status: int | None = None


class Init:
    """Starts, signals and reaps; knows nothing of Kubernetes."""

    def __init__(self) -> None:
        self.children: dict[str, Child] = {}

    def start(self, name: str, argv: list[str], log: str, env: dict[str, str]) -> dict[str, Any]:
        running = self.children.get(name)
        if running is not None and running.status is None:
            return {"error": f"{name} runs already"}
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                {**os.environ, **env},
                file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, output, 1),
                              (os.POSIX_SPAWN_DUP2, output, 2)],
                setsid=True,
            )  # fmt: skip
        except OSError as error:
            return {"error": f"{argv[0]}: {error.strerror}"}
        finally:
            os.close(output)
            os.close(null)
        self.children[name] = Child(pid, argv, log, env)
        return {"pid": pid}

    def again(self, name: str) -> dict[str, Any]:
        """Start what ended as it was started before."""
        child = self.children.get(name)
        if child is None:
            return {"error": f"{name} was never started"}
        return self.start(name, child.argv, child.log, child.env)

    def signal(self, name: str, number: int) -> dict[str, Any]:
        child = self.children.get(name)
        if child is not None and child.status is None:
            os.kill(child.pid, number)
        return {}

    def status(self) -> dict[str, Any]:
        return {name: child.status for name, child in self.children.items()}

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self.children.values():
                if child.pid == pid:
                    child.status = os.waitstatus_to_exitcode(status)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.reap()
        for verb, call in (
            ("start", self.start),
            ("again", self.again),
            ("signal", self.signal),
            ("status", self.status),
        ):
            if verb in request:
                reply: dict[str, Any] = call(**request[verb])
                return reply
        return {"error": "unknown request"}


def serve(path: Path, owner: int | None) -> None:
    """Answer requests until we are told to end, or until the owner's process (a pidfd) has ended."""
    init = Init()
    wake, waker = socket.socketpair()
    for end in (wake, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *dummy: sys.exit(0))
    signal.signal(signal.SIGCHLD, lambda *dummy: None)
    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        # A socket's address is short; a cluster's folder may not be.
        os.chdir(path.parent)
        listener.bind(path.name)
        listener.listen(16)
        watched = [listener.fileno(), wake.fileno(), *([owner] if owner is not None else [])]
        while True:
            ready = select.select(watched, [], [])[0]
            if owner in ready:
                return
            if wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    wake.recv(4096)
                init.reap()
            if listener.fileno() in ready:
                _talk(listener, init)


def _talk(listener: socket.socket, init: Init) -> None:
    connection, dummy = listener.accept()
    with connection, contextlib.suppress(OSError, ValueError, TypeError):
        connection.settimeout(5)
        with connection.makefile("rw") as stream:
            reply = init.answer(json.loads(stream.readline()))
            stream.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
