# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What all suites share: how Hypothesis searches here, and an orderly end when the run is told to stop."""

from __future__ import annotations

import os
import signal
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time, so that a red run stays red; no deadline and no complaint of slow draws, since a busy
# machine is not a bug (a process that only gets what others leave stands still for seconds, in a draw too).
# More examples for a thorough search: COLOCATION_EXAMPLES=5000 ./test unit
settings.register_profile(
    "colocation",
    derandomize="COLOCATION_EXAMPLES" not in os.environ,
    max_examples=int(os.environ.get("COLOCATION_EXAMPLES", "50")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
settings.load_profile("colocation")


def pytest_configure() -> None:
    """Fixtures are torn down on SIGTERM too: what a test has started is taken down."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        pytest.exit("told to stop", returncode=143)

    signal.signal(signal.SIGTERM, stop)
