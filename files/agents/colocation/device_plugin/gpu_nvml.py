# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""GPUs by NVIDIA's driver (NVML), through NVIDIA's own binding, which is loaded when it is first needed.

The driver numbers its GPUs anew when one is gone, so they are known by their UUIDs alone. A GPU that can't be asked any
more stays what it was, and ill. Where the driver itself does not answer, it is begun with anew at the next poll.
"""

from __future__ import annotations

import errno
import importlib
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from colocation.device_plugin.gpu_backend import Backend, NoDriver, Seen

MIB = 1 << 20
PCI = "/sys/bus/pci/devices"
DEVICE = "/dev/nvidiactl"
RECOVERY_ACTION = 230  # NVML's NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
NEEDS = {
    1: "a reset",
    2: "a reboot of the node",
    3: "the end of its traffic with other GPUs",
    4: "to be drained and reset",
    6: "a reset of its bus",
    7: "a reboot of the system",
}
LONGEST_WAIT = 1.0  # seconds, after which a wait looks whether it is closed


class Nvml(Backend):
    """`nvml` is the binding."""

    about = "NVML"

    def __init__(self, load: Callable[[], Any] = lambda: importlib.import_module("pynvml"), pci: str = PCI) -> None:
        self._load = load
        self._pci = Path(pci)
        self._nvml: Any = None
        self._seen: dict[str, Seen] = {}  # by UUID, at the last poll
        self._events: Any = None
        self._heard: set[str] = set()  # UUIDs of the GPUs whose errors are among the events
        self._ended = threading.Event()

    def poll(self) -> tuple[Seen, ...]:
        self.left_out = ()
        nvml = self._begun()
        try:
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as problem:
            self._forget()
            raise NoDriver(f"the driver does not say how many GPUs there are: {problem}") from None
        seen: dict[str, Seen] = {}
        refused: dict[int, str] = {}
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                one = self._look(handle)
            except nvml.NVMLError as problem:
                refused[index] = str(problem)
                continue
            seen[one.uuid] = one
            self._listen(one.uuid, handle)
        if refused:  # by those of the last time that are not seen now
            ill = f"the driver says: {'; '.join(dict.fromkeys(refused.values()))}"
            lost = {uuid: replace(one, ill=ill, cleared=False) for uuid, one in self._seen.items() if uuid not in seen}
            if len(lost) < len(refused):  # and by some that were never seen
                self.left_out = tuple(f"GPU number {index} can't be asked: {why}" for index, why in refused.items())
            seen |= lost
        self._seen = seen
        self._heard &= seen.keys()  # one that comes again is listened to again
        return tuple(seen.values())

    def wait(self, seconds: float) -> tuple[tuple[str, int], ...]:
        if not self._heard:
            self._ended.wait(seconds)
            return ()
        nvml = self._nvml
        left = seconds
        while left > 0 and not self._ended.is_set():
            step = min(left, LONGEST_WAIT)
            left -= step
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, int(step * 1000))
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError:
                self._ended.wait(step)
                continue
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                return self._errors(event)
        return ()

    def close(self) -> None:
        self._ended.set()

    def _errors(self, event: Any) -> tuple[tuple[str, int], ...]:
        """Whose error it is; one that names no GPU is of all."""
        try:
            uuids = [self._nvml.nvmlDeviceGetUUID(event.device)]
        except self._nvml.NVMLError:
            uuids = list(self._seen)
        return tuple((uuid, int(event.eventData)) for uuid in uuids)

    def _begun(self) -> Any:
        """The binding, with the driver ready."""
        if self._nvml is None:
            try:
                nvml = self._load()
                nvml.nvmlInit()
            except Exception as problem:  # of the import, of ctypes, or of NVML
                raise NoDriver(f"there is no NVIDIA driver: {problem}{_forbidden()}") from None
            self._nvml = nvml
            try:
                self._events = nvml.nvmlEventSetCreate()
            except nvml.NVMLError:
                self._events = None  # polls alone tell then
        return self._nvml

    def _listen(self, uuid: str, handle: Any) -> None:
        """Hear of this GPU's errors, if it tells of any and is not heard yet. One that can't is tried again."""
        nvml = self._nvml
        if self._events is None or uuid in self._heard:
            return
        try:
            kind = nvml.nvmlEventTypeXidCriticalError & nvml.nvmlDeviceGetSupportedEventTypes(handle)
            if kind:
                nvml.nvmlDeviceRegisterEvents(handle, kind, self._events)
                self._heard.add(uuid)
        except nvml.NVMLError:
            return

    def _forget(self) -> None:
        nvml, self._nvml, self._events, self._heard = self._nvml, None, None, set()
        try:
            nvml.nvmlShutdown()
        except nvml.NVMLError:
            pass

    def _look(self, handle: Any) -> Seen:
        nvml = self._nvml
        action = self._recovery_action(handle)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        return Seen(
            uuid,
            int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB,
            nvml.nvmlDeviceGetName(handle),
            self._numa(handle),
            self._illness(handle, action),
            self._instances(handle, uuid),
            cleared=action == 0,
        )

    def _recovery_action(self, handle: Any) -> int | None:
        """What the driver wants done to the GPU, 0 for nothing; None where it does not say, as older ones."""
        try:
            (value,) = self._nvml.nvmlDeviceGetFieldValues(handle, [RECOVERY_ACTION])
        except self._nvml.NVMLError:
            return None
        return int(value.value.uiVal) if value.nvmlReturn == self._nvml.NVML_SUCCESS else None

    def _illness(self, handle: Any, action: int | None) -> str:
        if action:
            return f"the driver says that it needs {NEEDS.get(action, f'recovery action {action}')}"
        try:
            # Replacements that are pending don't matter: until the reset the driver keeps everybody off these rows.
            _right, _wrong, _pending, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
        except self._nvml.NVMLError:
            return ""  # older GPUs don't remap
        return "its broken memory could not be replaced (row remapping failed)" if failed else ""

    def _numa(self, handle: Any) -> int | None:
        """By its place on the bus, as the driver itself answers that for few GPUs."""
        address = self._nvml.nvmlDeviceGetPciInfo(handle).busId
        text = address.decode() if isinstance(address, bytes) else str(address)
        domain, _colon, rest = text.lower().partition(":")
        try:
            node = int((self._pci / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _instances(self, handle: Any, uuid: str) -> tuple[tuple[str, int], ...] | None:
        nvml = self._nvml
        try:
            if not nvml.nvmlDeviceGetMigMode(handle)[0]:
                return None
        except nvml.NVMLError:
            if uuid in self._seen and self._seen[uuid].instances is not None:
                raise  # it was in MIG mode, so this does not mean that it knows none
            return None  # GPUs that know no MIG
        found: list[tuple[str, int]] = []
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError_NotFound:
                continue
            found.append((nvml.nvmlDeviceGetUUID(part), int(nvml.nvmlDeviceGetMemoryInfo(part).total) // MIB))
        return tuple(found)


def _forbidden() -> str:
    """A hint if this process may not open the driver's device: systemd allows what there is when a unit starts."""
    try:
        os.close(os.open(DEVICE, os.O_RDWR))
    except OSError as problem:
        if problem.errno == errno.EPERM:
            return "; it was loaded after this agent had started: systemctl restart colocation-device-plugin"
    return ""
