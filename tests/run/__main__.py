# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Starts the engine by its directory: `python3 tests/run test …`."""

import importlib
import os
import sys

if sys.version_info < (3, 10):
    sys.exit("./test, ./demo and ./bench need Python 3.10 or later as python3; this is " + sys.version.split()[0])

here = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(here)
sys.exit(importlib.import_module(os.path.basename(here) + ".commands").main(sys.argv[1:]))
