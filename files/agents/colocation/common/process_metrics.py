# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The metrics that every agent has: itself, its memory, its processor time, its open files."""

from __future__ import annotations

import os
import platform
import resource
import time
from pathlib import Path

from colocation.common.metrics import Registry


def add(registry: Registry, agent: str, version: str) -> None:
    """Register them; they are measured when somebody asks."""
    info = registry.gauge("colocation_agent_info", "Which agent this is.", ("agent", "version", "python"))
    info.set(1, agent=agent, version=version, python=platform.python_version())
    started = registry.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")
    started.set(time.time())
    memory = registry.gauge("process_resident_memory_bytes", "Memory that the process holds.")
    cpu = registry.counter("process_cpu_seconds_total", "Processor time that the process used.")
    files = registry.gauge("process_open_fds", "Files that the process has open.")

    def measure() -> None:
        memory.set(resident_bytes())
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu.set(used.ru_utime + used.ru_stime)
        files.set(len(os.listdir("/proc/self/fd")))

    registry.before_rendering(measure)


def resident_bytes() -> int:
    """Memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
