# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a test starts ends with it, also when the test is killed."""

from __future__ import annotations

# Before a command: the kernel ends it with the thread that started it.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
