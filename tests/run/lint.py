# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The part lint: every check is one test; two run at a time, the slow ones first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .packages import SEARCH_PATH
from .report import CannotGoOn, Count, Outcome
from .setup import Session
from .stage import INSIDE

AT_A_TIME = 2
TYPED = ("plugins", "tests/run")
MADE_PAGES = "tests/run/made_pages.py"


@dataclass(frozen=True, slots=True)
class Check:
    """A tool to run; no command where it has nothing to look at, or can't be had (`skipped`)."""

    name: str
    command: Sequence[str | Path] = ()
    variables: dict[str, str] = field(default_factory=dict)
    skipped: str = ""


def run(session: Session) -> None:
    """Run all checks."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        try:
            for result in [pool.submit(_run_one, session, check) for check in checks(session)]:
                result.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_one(session: Session, check: Check) -> None:
    began = time.monotonic()
    if check.skipped:
        outcome = Outcome(Count(skipped=1), check.skipped)
    elif not check.command:
        outcome = Outcome(Count(), "no such files yet")
    else:
        log_name = "lint-" + check.name.replace(" ", "-").replace("/", "-")
        status, log = session.run(check.command, log_name, **check.variables)
        outcome = Outcome(Count(passed=int(status == 0), failed=int(status != 0)), log=log)
    session.report.ended("lint", check.name, time.monotonic() - began, outcome)


def checks(session: Session) -> list[Check]:
    """What is checked, in an order that keeps both workers busy."""
    tool, collection, cache = session.tools.command, session.stage.collection, session.places.cache
    scripts = shell_scripts(collection)
    return [
        Check("ansible-lint", [tool("ansible-lint"), "--offline", "--nocolor", "-q"]),
        Check("ruff", [tool("ruff"), "check", "--cache-dir", cache / "ruff", "."]),
        Check("yamllint", [tool("yamllint"), "--strict", "."]),
        mypy(session),
        mypy_package(session, "tests/cluster"),
        mypy_package(session, "files/agents"),
        Check("changelog fragments", [tool("antsibull-changelog"), "lint"]),
        Check("role argument specs", [session.tools.python, "tests/run/role_specs.py", "roles"]),
        Check("pages that are made", [session.tools.python, MADE_PAGES]),
        Check("bash syntax", ["bash", "-c", 'for s; do bash -n "$s" || bad=1; done; exit ${bad:-0}', "bash", *scripts]),
        shellcheck(scripts),
    ]


def write_pages(session: Session) -> None:
    """Write the pages that are made from specifications into the checkout."""
    with session.report.setting_up("pages that are made"):
        status, log = session.run([session.tools.python, MADE_PAGES, "--write", session.places.checkout], "made-pages")
        if status != 0:
            raise CannotGoOn(f"The pages can't be made:\n{log.read_text(errors='replace')}")


def mypy(session: Session) -> Check:
    """Strict on what thinks, milder on modules (pyproject.toml says which)."""
    collection = session.stage.collection
    targets = [INSIDE / name for name in TYPED if any((collection / name).rglob("*.py"))]
    in_root: list[str | Path] = ["bash", "-c", 'cd "$1" && shift && exec "$@"', "bash", session.stage.root]
    command = [*in_root, *_mypy(session, "mypy"), *targets]
    return Check("mypy", command, {"MYPYPATH": str(session.stage.root)})


def mypy_package(session: Session, place: str) -> Check:
    """Strict on a package of its own whose parent is no package: the cluster tool, the agents."""
    parent = session.stage.collection / place
    packages = [file.parent for file in sorted(parent.glob("*/__init__.py"))]
    command = [*_mypy(session, "mypy-" + place.replace("/", "-")), *packages]
    return Check(f"mypy {place}", command if packages else (), {"MYPYPATH": str(parent)})


def _mypy(session: Session, cache: str) -> list[str | Path]:
    settings = session.stage.collection / "pyproject.toml"
    mypy = session.tools.command("mypy")
    return [mypy, "--config-file", settings, "--cache-dir", session.places.cache / cache]


def shellcheck(scripts: Sequence[Path]) -> Check:
    """From the system's packages, where they have it."""
    found = shutil.which("shellcheck", path=SEARCH_PATH)
    return Check("shellcheck", [found, *scripts]) if found else Check("shellcheck", skipped="not installed")


def shell_scripts(collection: Path) -> list[Path]:
    """Files that say they are for a shell, by name or first line, relative to the collection."""
    found = []
    for path in sorted(collection.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            first = file.readline(80)
        if path.suffix == ".sh" or (first.startswith(b"#!") and first.split()[-1].split(b"/")[-1] in (b"sh", b"bash")):
            found.append(path.relative_to(collection))
    return found
