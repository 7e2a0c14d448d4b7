# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Looks at the GPUs in a thread of its own, for a driver with a sick GPU may take long to answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from colocation.common.journal import Log
from colocation.device_plugin.gpu_backend import Backend, NoDriver, Seen, offered, with_destroyed
from colocation.device_plugin.gpu_health import Health
from colocation.device_plugin.gpus import Gpu, namesakes

GONE = "it is gone"
LATE_POLLS, LEAST_LATE_SECONDS = 4, 15.0  # without an answer of the driver, and that is a problem
log = Log("gpu")


@dataclass(frozen=True, slots=True)
class Look:
    """The GPUs on offer as they were last seen."""

    gpus: tuple[Gpu, ...]
    left_out: tuple[str, ...] = ()


class GpuWatcher:
    """`look` is None until the GPUs were seen. One that was seen once stays, and is ill while it is not seen."""

    def __init__(
        self,
        backend: Backend,
        mig: str,
        poll_seconds: float,
        rest_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.look: Look | None = None
        self.about = backend.about
        self._problem = "the GPUs were not looked at yet"
        self._backend = backend
        self._mig = mig
        self._poll_seconds = poll_seconds
        self._late = max(LATE_POLLS * poll_seconds, LEAST_LATE_SECONDS)
        self._clock = clock
        self._answered = clock()
        self._known: dict[str, Seen] = {}
        self._lost: set[str] = set()
        self._health = Health(rest_seconds)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)

    @property
    def problem(self) -> str:
        """Why it is not known how the GPUs are now. A call into a hung driver never ends, so the time tells."""
        late = self._clock() - self._answered > self._late
        return self._problem or (f"the GPUs' driver has not answered for {self._late:g} s" if late else "")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._backend.close()
        if self._thread.is_alive():
            self._thread.join(3.0)

    def poll(self, now: float) -> None:
        """Look once."""
        problem = ""
        seen: dict[str, Seen] = {}
        try:
            seen = {one.uuid: with_destroyed(one, self._known.get(one.uuid)) for one in self._backend.poll()}
        except NoDriver as failure:
            problem = str(failure)
        self._answered = self._clock()
        self._note(problem)
        if problem and self.look is None:
            return
        lost = {uuid: replace(one, ill=problem or GONE) for uuid, one in self._known.items() if uuid not in seen}
        for uuid, one in seen.items():
            if uuid in self._lost or one.cleared:
                self._health.begun_anew(uuid)
        self._known |= seen
        self._lost = set(lost)
        self._show([*seen.values(), *lost.values()], now)

    def reported(self, uuid: str, xid: int, now: float) -> None:
        """The driver reported an error."""
        if self._health.reported(uuid, xid, now):
            log.error("a GPU's driver reports an error", gpu=uuid, xid=xid)

    def _show(self, seen: Sequence[Seen], now: float) -> None:
        ill = self._health.judge({one.uuid: one.ill for one in seen}, now)
        gpus, left_out = offered(seen, ill, self._mig)
        doubled = namesakes(gpus)
        left_out += self._backend.left_out
        left_out += tuple(f"{uuid} has the short name of another one" for uuid in doubled)
        look = Look(tuple(gpu for gpu in gpus if gpu.uuid not in doubled), left_out)
        self._tell(self.look, look)
        if look != self.look:
            self.look = look

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.poll(time.monotonic())
                for uuid, xid in self._backend.wait(self._poll_seconds):
                    self.reported(uuid, xid, time.monotonic())
            except Exception as problem:
                log.exception("the look at the GPUs failed")
                self._note(f"the look at the GPUs failed: {problem}")
                self._ended.wait(self._poll_seconds)

    def _tell(self, before: Look | None, now: Look) -> None:
        known = {gpu.uuid: gpu.ill for gpu in before.gpus} if before else {}
        for why in now.left_out:
            if before is None or why not in before.left_out:
                log.warning("a GPU is not offered", why=why)
        for uuid in sorted(known.keys() - {gpu.uuid for gpu in now.gpus}):
            log.warning("a GPU is offered no more", gpu=uuid)
        for gpu in now.gpus:
            was = known.get(gpu.uuid)
            if gpu.ill and gpu.ill != was:
                log.error("a GPU is ill; who has units of it keeps them", gpu=gpu.uuid, why=gpu.ill)
            elif was and not gpu.ill:
                log.info("a GPU is well again", gpu=gpu.uuid)
            elif was is None:
                log.info("a GPU", gpu=gpu.uuid, mib=gpu.memory_mib, model=gpu.model, numa=gpu.numa)

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.error("the GPUs can't be seen", why=problem)
        self._problem = problem
