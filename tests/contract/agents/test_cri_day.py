# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A day in a minute: containers come and go, many at a time, while proxy and runtime are killed and restarted. The
runtime and the kubelet are doubles; molecule/cri_proxy does the same with the real ones, slower.

COLOCATION_POD_CYCLES=500 makes it a long day.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from ansible_collections.colocation.kubernetes.tests.contract.agents.agent_process import AgentProcess, until
from ansible_collections.colocation.kubernetes.tests.contract.agents.runtime_double import KubeletCalls, RuntimeDouble
from ansible_collections.colocation.kubernetes.tests.contract.agents.test_cri_placement import config
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, write
from colocation.cri_proxy.protocol import MESSAGES

CYCLES = int(os.environ.get("COLOCATION_POD_CYCLES", "40"))
AT_A_TIME = 6
ALIVE = 12  # containers that run at a time
EVERY = 8  # pods between two deeds
NOTICED = 5.0  # seconds in which everybody has noticed that a connection is over
SIZES = (100, 1000, 4000, 9000, 17_000, 25_000, 40_000)
LIMIT = 120.0  # of a start, or of a proxy's, on a machine that does much else


class Calls:
    """A kubelet's calls, again and again until they succeed, and when they failed."""

    def __init__(self, socket: Path) -> None:
        self._calls = KubeletCalls(socket)
        self.failures: list[tuple[float, float]] = []

    def start(self, name: str, milli: int) -> str:
        """A pod with a container; what a failed try may have left is stopped first, as a kubelet does."""
        config, sandbox = self._until_done(lambda: self._calls.pod(name))
        tries = iter(range(1000))

        def create() -> str:
            attempt = next(tries)
            if attempt:
                self._stop_all_of(sandbox)
            made = self._calls.call(
                "CreateContainer",
                pod_sandbox_id=sandbox,
                config=MESSAGES["ContainerConfig"](
                    metadata={"name": "main", "attempt": attempt},
                    linux={"resources": {"cpu_shares": milli * 1024 // 1000, "cpu_period": 100_000}},
                ),
                sandbox_config=config,
            )
            key: str = made.container_id
            return key

        return self._until_done(create)

    def stop(self, container: str) -> None:
        self._until_done(lambda: self._calls.call("StopContainer", container_id=container))

    def close(self) -> None:
        self._calls.close()

    def _stop_all_of(self, sandbox: str) -> None:
        for one in self._calls.call("ListContainers").containers:
            if one.pod_sandbox_id == sandbox:
                self._calls.call("StopContainer", container_id=one.id)

    def _until_done(self, do: Callable[[], Any]) -> Any:
        end = time.monotonic() + LIMIT
        while True:
            began = time.monotonic()
            try:
                return do()
            except grpc.RpcError:
                self.failures.append((began, time.monotonic()))
                if time.monotonic() > end:
                    raise


class Node:
    """A runtime, perhaps with a proxy before it, and what befell them."""

    def __init__(self, place: Path, proxied: bool) -> None:
        self.place = place
        self.runtime = RuntimeDouble(place / "runtime.sock", place / "cgroup", "0-63")
        self.runtime.start()
        self.machine = write(MACHINES["hygon-c86"], place / "machine")
        self.outages: list[tuple[float, float]] = []
        self.agent = self._begin() if proxied else None

    def restart_runtime(self) -> None:
        self.runtime.stop()
        self.runtime.start()

    def kill_proxy(self) -> None:
        if self.agent is not None:
            self.agent.process.kill()
            self.agent.process.wait()
            self._begin_again(self.agent)

    def restart_proxy(self) -> None:
        if self.agent is not None:
            self.agent.end()
            self._begin_again(self.agent)

    def restart_both(self) -> None:
        self.runtime.stop()
        self.kill_proxy()
        self.runtime.start()

    def befall(self, deed: str) -> None:
        began = time.monotonic()
        getattr(self, deed)()
        self.outages.append((began, time.monotonic()))

    def books(self) -> dict[str, str]:
        assert self.agent is not None
        (table,) = self.agent.status().tables
        found = {str(row[0]): str(row[1]) for row in table.rows}
        assert len(found) == len(table.rows), "somebody is booked twice"
        return found

    def truth(self) -> dict[str, str]:
        """What runs, and where."""
        runtime = self.runtime
        name = {key: runtime.sandboxes[made.pod_sandbox_id].metadata.name for key, made in runtime.containers.items()}
        alive = runtime.alive()
        assert len({name[key] for key in alive}) == len(alive), "a pod has two containers"
        return {f"default/{name[key]}/main": runtime.effective(key) for key in alive}

    def close(self) -> None:
        if self.agent is not None:
            self.agent.close()
        self.runtime.stop()

    def _begin_again(self, before: AgentProcess) -> None:
        before.close()
        (self.place / "notify").unlink()
        self.agent = self._begin()

    def _begin(self) -> AgentProcess:
        more = "placement: {check_seconds: 2}\n"
        made = AgentProcess(self.place, config(self.place, self.machine) + more, module="cri_proxy")
        until("the proxy is ready", lambda: made.notified("READY=1"), LIMIT)
        return made


@pytest.fixture(params=[True, False], ids=["with the proxy", "without"])
def node(request: pytest.FixtureRequest, place: Path) -> Iterator[Node]:
    made = Node(place, request.param)
    yield made
    made.close()


class Lives:
    """Pods that start, each in the place of one that ends."""

    def __init__(self, calls: Calls, node: Node) -> None:
        self._calls = calls
        self._node = node
        self._alive: list[str] = []
        self._lock = threading.Lock()
        self._may_start = threading.Semaphore(ALIVE)
        self._ended = threading.Semaphore(0)

    def start_more(self, count: int) -> None:
        self._may_start.release(count)

    def wait_for_ends(self, count: int) -> None:
        for _end in range(count):
            assert self._ended.acquire(timeout=LIMIT)

    def live(self, number: int) -> None:
        """Start a pod, and end one that runs: every fourth exits by itself."""
        draw = random.Random(number)
        assert self._may_start.acquire(timeout=10 * LIMIT)
        container = self._calls.start(f"p{number}", draw.choice(SIZES))
        with self._lock:
            self._alive.append(container)
            if len(self._alive) <= ALIVE:
                return
            ends = self._alive.pop(draw.randrange(ALIVE))
        if draw.random() < 0.25:
            self._node.runtime.end(ends)
        else:
            self._calls.stop(ends)
        self._ended.release()


def test_whatever_is_killed_every_pod_starts_and_the_books_are_right(node: Node) -> None:
    calls = Calls(node.place / ("cri.sock" if node.agent else "runtime.sock"))
    lives, draw = Lives(calls, node), random.Random(CYCLES)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        all_lives = [pool.submit(lives.live, number) for number in range(ALIVE + CYCLES + EVERY)]
        for _deed in range(CYCLES // EVERY):
            lives.start_more(EVERY)
            lives.wait_for_ends(EVERY // 4)  # the others are under way
            node.befall(draw.choice(("restart_runtime", "kill_proxy", "restart_proxy", "restart_both")))
            lives.wait_for_ends(EVERY - EVERY // 4)
        lives.start_more(CYCLES % EVERY + EVERY)  # what exits of these must be found without a restart
        for one in all_lives:
            one.result()
    calls.close()
    assert len(node.runtime.alive()) == ALIVE
    for began, failed in calls.failures:  # nothing fails while all is up
        assert any(began < up + NOTICED and failed > down for down, up in node.outages), (began, failed, node.outages)
    if node.agent is not None:
        until("books and truth agree", lambda: node.books() == node.truth(), LIMIT)
