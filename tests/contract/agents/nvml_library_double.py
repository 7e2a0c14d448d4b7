# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of NVIDIA's libnvidia-ml.so.1, for NVIDIA's own Python binding: the functions that the agent needs of it,
with C's types. It refuses what a real library refuses: calls before its start, and handles that it never gave away."""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, TIMEOUT, LOST = 0, 1, 2, 3, 6, 10, 15
UNKNOWN = 999
XID = 8
RECOVERY_ACTION = 230
FIRST, FIRST_MIG = 0x1000, 0x9000  # handles


@dataclass
class GpuOfLibrary:
    """One GPU; change it at any time."""

    uuid: str
    mib: int
    bus: str
    name: str = "NVIDIA H100"
    lost: bool = False
    events: bool = True  # it knows any
    failed_remaps: int | None = 0  # None: it does not remap rows
    pending_remaps: int = 0
    recovery: int | None = None  # what is to be done to it; None: the driver does not know such a field
    mig: list[tuple[str, int]] | None = None
    mig_fails: bool = False  # to say whether it is in MIG mode


@dataclass
class NvmlLibraryDouble:
    """Takes the place of what ctypes would have loaded."""

    gpus: list[GpuOfLibrary]
    away: bool = False  # the driver does not answer
    started: int = 0
    registered: list[int] = field(default_factory=list)
    events: queue.Queue[tuple[int, int, int]] = field(default_factory=queue.Queue)  # handle, type, data

    def __getattr__(self, name: str) -> Callable[..., int]:
        """A function of the library; the binding takes what is missing for an older one."""
        if not name.startswith("nvml"):
            raise AttributeError(name)
        function: Callable[..., int] = getattr(self, f"_{name.removeprefix('nvml')}")

        def called(*arguments: Any) -> int:
            if self.away and name != "nvmlErrorString":
                return UNKNOWN
            if not self.started and name not in ("nvmlInitWithFlags", "nvmlErrorString"):
                return UNINITIALIZED
            return function(*arguments)

        return called

    def _InitWithFlags(self, _flags: int) -> int:
        self.started += 1
        return OK

    def _Shutdown(self) -> int:
        self.started -= 1
        return OK

    def _ErrorString(self, result: Any) -> bytes:
        return {LOST: b"GPU is lost", UNINITIALIZED: b"Uninitialized"}.get(int(result), b"Unknown Error")

    def _DeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return OK

    def _DeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        if index.value >= len(self.gpus):
            return INVALID_ARGUMENT
        if self.gpus[index.value].lost:
            return LOST
        _give(handle, FIRST + index.value)
        return OK

    def _DeviceGetUUID(self, handle: Any, buffer: Any, _size: Any) -> int:
        number = _number(handle)
        if number >= FIRST_MIG:
            buffer.value = self._instance(number)[0].encode()
        elif (gpu := self._gpu(handle)) is None:
            return INVALID_ARGUMENT
        else:
            buffer.value = gpu.uuid.encode()
        return OK

    def _DeviceGetName(self, handle: Any, buffer: Any, _size: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        buffer.value = gpu.name.encode()
        return OK

    def _DeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        number = _number(handle)
        gpu = self._gpu(handle)
        if number < FIRST_MIG and gpu is None:
            return INVALID_ARGUMENT
        mib = self._instance(number)[1] if number >= FIRST_MIG else gpu.mib if gpu else 0
        memory._obj.total = mib << 20
        return OK

    def _DeviceGetPciInfo_v3(self, handle: Any, info: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        info._obj.busId = gpu.bus.encode()
        return OK

    def _DeviceGetRemappedRows(self, handle: Any, right: Any, wrong: Any, pending: Any, failed: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None or gpu.failed_remaps is None:
            return NOT_SUPPORTED
        right._obj.value = wrong._obj.value = 0
        pending._obj.value = gpu.pending_remaps
        failed._obj.value = gpu.failed_remaps
        return OK

    def _DeviceGetFieldValues(self, handle: Any, _count: Any, values: Any) -> int:
        gpu = self._gpu(handle)
        (value,) = values._obj
        if gpu is None or gpu.recovery is None or value.fieldId != RECOVERY_ACTION:
            value.nvmlReturn = INVALID_ARGUMENT
        else:
            value.nvmlReturn, value.value.uiVal = OK, gpu.recovery
        return OK

    def _DeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None or (gpu.mig is None and gpu.failed_remaps is None):
            return NOT_SUPPORTED
        if gpu.mig_fails:
            return UNKNOWN
        current._obj.value = pending._obj.value = int(gpu.mig is not None)
        return OK

    def _DeviceGetMaxMigDeviceCount(self, _handle: Any, count: Any) -> int:
        count._obj.value = 7
        return OK

    def _DeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, part: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None or gpu.mig is None or index.value >= len(gpu.mig):
            return NOT_FOUND
        _give(part, FIRST_MIG + 16 * self.gpus.index(gpu) + index.value)
        return OK

    def _EventSetCreate(self, events: Any) -> int:
        _give(events, 0x77)
        return OK

    def _DeviceGetSupportedEventTypes(self, handle: Any, types: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None or not gpu.events:
            return NOT_SUPPORTED
        types._obj.value = XID | 1
        return OK

    def _DeviceRegisterEvents(self, handle: Any, types: Any, events: Any) -> int:
        if _number(events) != 0x77 or types.value != XID:
            return INVALID_ARGUMENT
        self.registered.append(_number(handle))
        return OK

    def _EventSetWait_v2(self, _events: Any, data: Any, timeout: Any) -> int:
        try:
            handle, kind, number = self.events.get(timeout=timeout.value / 1000)
        except queue.Empty:
            return TIMEOUT
        found = data._obj
        ctypes.memmove(ctypes.addressof(found), ctypes.byref(ctypes.c_void_p(handle)), ctypes.sizeof(ctypes.c_void_p))
        found.eventType, found.eventData = kind, number
        return OK

    def _gpu(self, handle: Any) -> GpuOfLibrary | None:
        number = _number(handle) - FIRST
        return self.gpus[number] if 0 <= number < len(self.gpus) else None

    def _instance(self, number: int) -> tuple[str, int]:
        gpu = self.gpus[(number - FIRST_MIG) // 16]
        assert gpu.mig is not None
        return gpu.mig[(number - FIRST_MIG) % 16]


def _give(reference: Any, handle: int) -> None:
    """Write a handle where the caller wants it."""
    ctypes.cast(reference, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.c_void_p(handle)


def _number(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
