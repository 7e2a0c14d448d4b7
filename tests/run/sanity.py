# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The part sanity: ansible-test on the staged collection; each of its tests is one of ours.

ansible-test keeps a virtual environment for each of its tests under the home directory, hands pip nothing of the
caller's environment, and downloads a script to bring pip along. So it gets a home of its own in the cache, with the
caller's pip configuration written down in it and a script in the place of the download that takes Python's own pip.
It runs with the interpreter of our environment (--python): --venv would make one more environment in every stage.
"""

from __future__ import annotations

import ast
import configparser
import io
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import junit
from .packages import last_lines
from .places import locked
from .report import CannotGoOn, Count, Outcome
from .setup import Session

OTHERS_VARIABLES = (
    ("SSL_CERT_FILE", "cert"),
    ("REQUESTS_CA_BUNDLE", "cert"),
    ("HTTPS_PROXY", "proxy"),
    ("https_proxy", "proxy"),
)
WHERE_THE_CORE_COUNTS = (
    "action-plugin-docs",
    "ansible-doc",
    "ignores",
    "import",
    "pylint",  # what the core deprecates
    "runtime-metadata",
    "validate-modules",
)
PIP_BY_PYTHON = "import ensurepip\n\nensurepip.bootstrap(default_pip=True)\n"


def run(session: Session) -> None:
    """All tests; then with the newest ansible-core those that depend on it."""
    run_tests(session)
    run_tests(session.with_newest_core(), WHERE_THE_CORE_COUNTS)


def run_tests(session: Session, tests: Sequence[str] = ()) -> None:
    """Prepare ansible-test's environments, then run its tests, or these of them."""
    home = session.places.cache / "ansible-test"
    chosen = [option for test in tests for option in ("--test", test)]
    prepare(session, home, chosen)
    began = time.monotonic()
    results = session.stage.collection / "tests" / "output"
    shutil.rmtree(results, ignore_errors=True)
    status, log = session.run([*_command(session), "--junit", *chosen], f"sanity-{session.tools.core}", HOME=str(home))
    counted = junit.count((results / "junit").glob("*.xml"))
    if status != 0 and counted.failed == 0:
        counted += Count(failed=1)  # it broke before it could say so
    outcome = Outcome(counted, str(counted), log)
    session.report.ended("sanity", session.named("ansible-test"), time.monotonic() - began, outcome)


def prepare(session: Session, home: Path, chosen: Sequence[str]) -> None:
    """Make the environments of ansible-test, one run at a time."""
    step = f"environments of ansible-test {session.tools.core}"
    with session.report.setting_up(step) as notes, locked(home / ".lock"):
        write_home(session, home)
        marker = home / f".complete-{session.tools.directory.name}"
        if marker.exists():
            notes.append("found")
            return
        command = [*_command(session), "--prime-venvs", *chosen]
        status, log = session.run(command, f"sanity-environments-{session.tools.core}", HOME=str(home))
        if status != 0:
            raise CannotGoOn(
                f"ansible-test can't make its environments:\n{last_lines(log, 12)}\nIs there a way to a Python package "
                "index? A mirror, proxy or certificate is set as for any pip: PIP_INDEX_URL, PIP_PROXY, PIP_CERT or a "
                "pip.conf."
            )
        marker.touch()
        notes.append("made")


def _command(session: Session) -> list[str | Path]:
    return [session.tools.command("ansible-test"), "sanity", "--python", session.tools.version, "--color", "no"]


def write_home(session: Session, home: Path) -> None:
    """The home directory that ansible-test sees."""
    script = home / ".ansible" / "test" / "cache" / f"get_pip_{bootstrap_version(session).replace('.', '_')}.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(PIP_BY_PYTHON)
    list_settings: list[str | Path] = [session.tools.python, "-m", "pip", "config", "list"]
    answer = subprocess.run(list_settings, capture_output=True, text=True, env=dict(session.environ), check=False)
    if answer.returncode != 0:
        raise CannotGoOn(f"pip can't read its configuration: {answer.stderr.strip()}")
    configuration = home / ".config" / "pip" / "pip.conf"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(configuration, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(pip_configuration(answer.stdout, session.environ))  # an index may be named with a password


def bootstrap_version(session: Session) -> str:
    """The pip whose bootstrap script ansible-test looks for."""
    packages = session.tools.directory / "lib" / f"python{session.tools.version}" / "site-packages"
    source = packages / "ansible_test" / "_internal" / "python_requirements.py"
    found = re.search(r"\bpip='([0-9.]+)'", source.read_text())
    if found is None:
        raise CannotGoOn(f"{source} no longer names the pip that ansible-test starts from; sanity.py must learn how.")
    return found.group(1)


def pip_configuration(listed: str, environ: Mapping[str, str]) -> str:
    """A pip.conf that says what `pip config list` listed, and what pip would take from other tools' variables."""
    parser = configparser.RawConfigParser()
    parser.add_section("global")
    for variable, key in OTHERS_VARIABLES:
        if environ.get(variable):
            parser.set("global", key, environ[variable])
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    for name, _equals, value in sorted(lines, key=lambda line: line[0].startswith(":env:")):  # the environment wins
        section, _dot, key = name.partition(".")
        section = "global" if section == ":env:" else section
        if not parser.has_section(section):
            parser.add_section(section)
        parser.set(section, key, str(ast.literal_eval(value)))
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()
