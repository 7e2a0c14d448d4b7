# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Looks at the GPUs in a thread of its own, for a driver with a sick GPU may take long to answer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from colocation.common.journal import Log
from colocation.device_plugin.gpu_backend import Backend, NoDriver, offered
from colocation.device_plugin.gpu_health import Health
from colocation.device_plugin.gpus import Gpu, namesakes

log = Log("gpu")


@dataclass(frozen=True, slots=True)
class Look:
    """The GPUs on offer as they were last seen."""

    gpus: tuple[Gpu, ...]
    left_out: tuple[str, ...] = ()


class GpuWatcher:
    """`look` is None until the GPUs were seen; what can't be seen any more stays as it was, and `problem` says so."""

    def __init__(self, backend: Backend, mig: str, poll_seconds: float, rest_seconds: float) -> None:
        self.look: Look | None = None
        self.problem = "the GPUs were not looked at yet"
        self.about = backend.about
        self._backend = backend
        self._mig = mig
        self._poll_seconds = poll_seconds
        self._health = Health(rest_seconds)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._backend.close()
        if self._thread.is_alive():
            self._thread.join(3.0)

    def poll(self, now: float) -> None:
        """Look once."""
        try:
            seen = self._backend.poll()
        except NoDriver as problem:
            self._note(str(problem))
            return
        ill = self._health.judge({one.uuid: one.ill for one in seen}, now)
        gpus, left_out = offered(seen, ill, self._mig)
        doubled = namesakes(gpus)
        left_out += tuple(f"{uuid} has the short name of another one" for uuid in doubled)
        look = Look(tuple(gpu for gpu in gpus if gpu.uuid not in doubled), left_out)
        self._tell(self.look, look)
        if look != self.look:
            self.look = look
        self._note("")

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.poll(time.monotonic())
                for uuid, xid in self._backend.wait(self._poll_seconds):
                    if self._health.reported(uuid, xid, time.monotonic()):
                        log.error("a GPU's driver reports an error", gpu=uuid, xid=xid)
            except Exception as problem:
                log.exception("the look at the GPUs failed")
                self._note(f"the look at the GPUs failed: {problem}")
                self._ended.wait(self._poll_seconds)

    def _tell(self, before: Look | None, now: Look) -> None:
        known = {gpu.uuid: gpu.ill for gpu in before.gpus} if before else {}
        for gpu in now.gpus:
            was = known.get(gpu.uuid)
            if gpu.ill and gpu.ill != was:
                log.error("a GPU is ill; who has units of it keeps them", gpu=gpu.uuid, why=gpu.ill)
            elif was and not gpu.ill:
                log.info("a GPU is well again", gpu=gpu.uuid)
            elif was is None:
                log.info("a GPU", gpu=gpu.uuid, mib=gpu.memory_mib, model=gpu.model, numa=gpu.numa)

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("the GPUs can't be seen; what is offered stays as it was", why=problem)
        self.problem = problem
