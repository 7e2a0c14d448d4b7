# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Sets up what the parts of a run need, and nothing else: each step named, with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import debian_python, environment, packages
from .environment import NEWEST_CORE, TOOLS, Interpreter, Recipe, Tools
from .places import Places, shown
from .process import end_all, run
from .report import CannotGoOn, Report
from .stage import Stage, staged

CLUSTER_PARTS = ("contract", "molecule", "long")
NEWEST_CORE_PARTS = ("sanity", "unit", "contract", "molecule")


@dataclass(frozen=True, slots=True)
class Session:
    """All that a part is handed."""

    places: Places
    report: Report
    environ: Mapping[str, str]  # the caller's
    logs: Path
    tools: Tools
    newest_core: Tools | None  # where a part runs a second time
    stage: Stage
    cluster_python: Path

    def with_newest_core(self) -> Session:
        """The same with the newest ansible-core."""
        if self.newest_core is None:
            raise ValueError("this part is not in NEWEST_CORE_PARTS")
        return replace(self, tools=self.newest_core)

    def named(self, what: str) -> str:
        """The name of a step or log that is run with more than one ansible-core."""
        return f"{what}, ansible-core {self.tools.core}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a tool: our commands first, the staged collection found, the cache named."""
        return {
            **self.tools.variables(self.environ),
            "COLOCATION_CACHE": str(self.places.cache),
            "COLOCATION_LOGS": str(self.logs),
            "COLOCATION_CHECKOUT": str(self.places.checkout),
            "COLOCATION_PYTHON": str(self.cluster_python),
            "ANSIBLE_COLLECTIONS_PATH": str(self.stage.root),
            "ANSIBLE_HOME": str(self.places.cache / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "PYTHONPATH": str(self.stage.root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PY_COLORS": "0",
        }

    def run(self, command: Sequence[str | Path], log: str, **more: str) -> tuple[int, Path]:
        """Run a tool in the staged collection; its exit status and its log."""
        path = self.logs / f"{log}.log"
        return run(command, path, env={**self.variables, **more}, cwd=self.stage.collection), path


@contextmanager
def session(parts: Sequence[str], places: Places, report: Report, environ: Mapping[str, str]) -> Iterator[Session]:
    """Everything these parts need."""
    try:
        logs = places.make_logs()
    except OSError as error:
        raise CannotGoOn(
            f"Can't write to the cache directory {places.cache}: {error.strerror}. COLOCATION_CACHE names another."
        ) from error
    report.say(f"logs in {shown(logs, environ)}")
    system_packages(parts, report, logs)
    tools, newest_core = virtual_environment(places, report, logs), None
    if any(part in NEWEST_CORE_PARTS for part in parts):
        newest_core = newest_core_environment(places, report, logs)
    with report.setting_up("staged collection"):
        stage = staged(places.checkout, places.cache)
        found = stage.__enter__()
    try:
        yield Session(places, report, environ, logs, tools, newest_core, found, tools.python)
    finally:
        stage.__exit__(None, None, None)


def system_packages(parts: Sequence[str], report: Report, logs: Path) -> None:
    """Install the system packages that are missing."""
    with report.setting_up("system packages") as notes:
        lacking = packages.missing(parts)
        if not lacking:
            notes.append("all there")
            return
        left_out = packages.install(lacking, logs / "packages.log")
        got = [package.name for package in lacking if package not in left_out]
        if got:
            notes.append("installed " + " ".join(got))
        if left_out:
            notes.append("could not get " + " ".join(package.name for package in left_out))


def virtual_environment(places: Places, report: Report, logs: Path) -> Tools:
    """Find or make the tools' virtual environment."""
    with report.setting_up("Python for the tools") as notes:
        interpreter = environment.find_interpreter() or environment.install_interpreter(logs / "python.log")
        notes.append(f"{interpreter.command} {interpreter.version}")
    return _environment(TOOLS, interpreter, places, report, logs)


def newest_core_environment(places: Places, report: Report, logs: Path) -> Tools:
    """Find or make the virtual environment with the newest ansible-core, which wants a newer Python."""
    with report.setting_up("Python for the newest ansible-core") as notes:
        interpreter = environment.find_interpreter(NEWEST_CORE.pythons)
        if interpreter is None:
            made = debian_python.make(places.cache, logs / "debian-python.log")
            interpreter = Interpreter(str(made), debian_python.VERSION)
        notes.append(f"{interpreter.command} {interpreter.version}")
    return _environment(NEWEST_CORE, interpreter, places, report, logs)


def _environment(recipe: Recipe, interpreter: Interpreter, places: Places, report: Report, logs: Path) -> Tools:
    with report.setting_up(f"virtual environment of {recipe.lock}") as notes:
        tools, made = environment.make(interpreter, places.checkout / "tests" / recipe.lock, places.cache, logs)
        notes.append(f"{'made' if made else 'found'}, ansible-core {tools.core}")
    return tools


@contextmanager
def cluster_programs(current: Session, parts: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Let the cluster tool build all programs, beside the parts that need none; what is yielded waits for them.

    Images and saved clusters are made by the first test that wants them.
    """
    if not any(part in CLUSTER_PARTS for part in parts):
        yield lambda: None
        return

    def build() -> None:
        with current.report.setting_up("Kubernetes, etcd, containerd"):
            cluster_tool(current, "build")

    with ThreadPoolExecutor(1) as builder:
        built = builder.submit(build)
        try:
            yield built.result
        finally:
            while not built.done():  # this run ends early; its child may be about to start
                end_all()
                wait([built], 1)


def cluster_tool(current: Session, *words: str) -> list[str]:
    """Call the cluster tool; the lines that it said."""
    tool = current.stage.collection / "tests" / "cluster" / "cluster"
    status, log = current.run([tool, *words], f"cluster-{words[0]}")
    if status != 0:
        raise CannotGoOn(f"tests/cluster/cluster {' '.join(words)} failed:\n{packages.last_lines(log, 40)}")
    return log.read_text(errors="replace").splitlines()[1:]
