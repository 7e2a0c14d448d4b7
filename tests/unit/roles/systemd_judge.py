# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What systemd itself says of the units that roles write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def systemd_analyze(*words: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def complaints(unit: Path) -> list[str]:
    """What it finds wrong with a unit; its programs need not be there."""
    done = systemd_analyze("verify", "--man=no", str(unit))
    return [line for line in done.stderr.splitlines() if unit.name in line and "is not executable" not in line]
