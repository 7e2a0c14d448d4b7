# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""`python3 -Es -m colocation.start device_plugin …`: what a unit runs.

A release is made for one Python minor, and a distribution's upgrade changes the node's under it. Then the Python that
the release was made for takes over, if it was kept; else one line says what to do. The CRI proxy, without which a
kubelet has no runtime, runs on the new Python then: none of its libraries is compiled for one minor only. So this file
must start on any Python 3, and imports nothing that is compiled, only the standard library and our log.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Sequence

from colocation.common.journal import goes_to_the_journal

KEPT_IN = ("/usr/bin", "/usr/local/bin")
BAD_CONFIG = 78  # sysexits' EX_CONFIG, as for a configuration that is wrong
ON_ANY_PYTHON = ("cri_proxy",)
RELEASE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def made_for(release: str = RELEASE) -> str:
    """The Python minor of a release, or "" in a checkout."""
    try:
        with open(os.path.join(release, "RELEASE.json"), encoding="utf-8") as file:
            return str(json.load(file)["python"])
    except FileNotFoundError:
        return ""


def kept(python: str, places: Sequence[str] = KEPT_IN) -> str | None:
    """That Python's interpreter, if the node still has it."""
    paths = [os.path.join(place, f"python{python}") for place in places]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def main(arguments: Sequence[str], release: str = RELEASE, places: Sequence[str] = KEPT_IN) -> int:
    """Become the agent that is named; comes back only when it can't."""
    running = "{}.{}".format(*sys.version_info[:2])
    if not arguments or not os.path.isfile(os.path.join(release, "colocation", arguments[0], "__main__.py")):
        return _refuse(f"python3 -m colocation.start <agent> …: no agent {' '.join(arguments[:1])!r} in {release}")
    module = f"colocation.{arguments[0]}"
    try:
        wanted = made_for(release)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        return _refuse(f"{release}/RELEASE.json can't be read ({problem}); run the playbook again")
    if wanted in ("", running):
        return _become(module, arguments)
    other = kept(wanted, places)
    if other is not None:  # straight to the agent: whatever that interpreter is, it does not come back here
        os.execv(other, [other, "-Es", "-m", module, *arguments[1:]])
    reason = f"{release} is made for Python {wanted} and {sys.executable} is {running}"
    advice = f"{reason}, as after an upgrade of the distribution; run the playbook again"
    if arguments[0] not in ON_ANY_PYTHON:
        return _refuse(advice)
    _say(f"{advice}. It runs on this Python meanwhile.")
    try:
        return _become(module, arguments)
    except ImportError as problem:
        return _refuse(f"It can't: {problem}")


def _become(module: str, arguments: Sequence[str]) -> int:
    sys.argv[1:] = arguments[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


def _refuse(why: str) -> int:
    _say(why)
    return BAD_CONFIG


def _say(what: str) -> None:
    print(("<3>" if goes_to_the_journal(os.environ, 2) else "") + what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
