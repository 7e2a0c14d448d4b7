# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command lines of ./test, ./bench and ./demo."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from . import benchmarks, demonstration, lint, locks, sanity, scenarios, suites
from .places import Places
from .process import Stopped, ended_by_signals
from .report import CannotGoOn, Report
from .setup import CLUSTER_PARTS, Session, cluster_programs, session

PARTS: Mapping[str, tuple[str, Callable[[Session], None]]] = {  # in an order that fails early
    "lint": ("yamllint, ruff, mypy, ansible-lint and more, each one test", lint.run),
    "sanity": ("ansible-test sanity", sanity.run),
    "unit": ("pure logic, the artifact, these commands", suites.run_unit),
    "contract": ("against real etcd, kube-apiserver, containerd …", suites.run_contract),
    "molecule": ("roles and playbooks in VMs", scenarios.run),
    "long": (f"longer scenarios, only when asked for: {', '.join(scenarios.LONG)}", scenarios.run_long),
}
USUAL = tuple(part for part in PARTS if part != "long")
PLACES_HELP = "Everything made is kept in $COLOCATION_CACHE (~/.cache/colocation-kubernetes)."


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; the exit status."""
    name, *rest = arguments
    command = {"test": test, "bench": bench, "demo": demo}[name]
    try:
        with ended_by_signals():
            return command(rest)
    except CannotGoOn as problem:
        print(f"\n./{name} can't go on. {problem}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read our lines has gone (| head)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Stopped as stopped:
        print(f"\n./{name} was told to stop.", file=sys.stderr)
        return int(stopped.code or 1)


def test(arguments: Sequence[str]) -> int:
    """./test: parts of the tests, or all."""
    listed = "\n".join(f"  {part:<10} {text}" for part, (text, _run) in PARTS.items())
    parser = _parser("test", "Sets up what the tests need and runs them.", f"parts, in this order:\n{listed}")
    parser.add_argument("parts", nargs="*", metavar="PART", help="run only these (default: all but long)")
    parser.add_argument(
        "--scenario", action="append", default=[], metavar="NAME", help="run this scenario (repeatable)"
    )
    parser.add_argument("--refresh-locks", action="store_true", help="renew the locks, the agents' too, and end")
    parser.add_argument("--refresh-docs", action="store_true", help="renew the pages that are made, and end")
    chosen = parser.parse_args(arguments)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; parts: {', '.join(PARTS)}")
    report, places = Report(), Places.of(os.environ)
    every = scenarios.known(places.checkout)
    if unknown := [name for name in chosen.scenario if name not in every]:
        parser.error(f"there is no scenario {', '.join(unknown)}; scenarios: {', '.join(every)}")
    if chosen.refresh_locks:
        locks.refresh(places, report)
        return 0
    if chosen.refresh_docs:
        with session(["lint"], places, report, os.environ) as current:
            lint.write_pages(current)
        return 0
    parts = [part for part in PARTS if part in (chosen.parts or (() if chosen.scenario else USUAL))]
    run = {part: PARTS[part][1] for part in parts}
    if chosen.scenario:
        run["molecule"] = functools.partial(scenarios.run_chosen, names=dict.fromkeys(chosen.scenario))
    try:
        with (
            session([*run], places, report, os.environ) as current,
            cluster_programs(current, [*run]) as await_programs,
        ):
            for part, tests in run.items():
                if part in CLUSTER_PARTS:
                    await_programs()
                tests(current)
    except CannotGoOn as problem:
        report.say(f"\n./test can't go on. {problem}\n")
        report.count_failure()
    return report.finish()


def bench(arguments: Sequence[str]) -> int:
    """./bench: benchmarks by name, or all."""
    places = Places.of(os.environ)
    every = benchmarks.known(places.checkout / "tests" / "bench")
    listed = ", ".join(every) or "there are none yet"
    parser = _parser("bench", "Runs benchmarks, each of which compares two things in one run.", f"benchmarks: {listed}")
    parser.add_argument("names", nargs="*", metavar="NAME", help="run only these (default: all)")
    chosen = benchmarks.select(every, parser.parse_args(arguments).names)
    if not chosen:
        print("There are no benchmarks yet.")
        return 0
    with session(["bench"], places, Report(), os.environ) as current:
        return benchmarks.run(current, chosen)


def demo(arguments: Sequence[str]) -> int:
    """./demo: tell the story in a cluster of VMs, or remove that."""
    listed = "\n".join(f"  {step.name:<10} {step.title}" for step in demonstration.chapters())
    about = "Makes a control plane and two worker VMs, and tells in them what the collection does, step by step."
    parser = _parser("demo", about, f"steps:\n{listed}")
    parser.add_argument("--until", metavar="STEP", default="", help="end after this step, to look around (hot-node …)")
    parser.add_argument("--destroy", action="store_true", help="remove what the demo made")
    chosen = parser.parse_args(arguments)
    steps = demonstration.chapters(chosen.until)  # before anything is made
    with session(["demo"], Places.of(os.environ), Report(), os.environ) as current:
        if chosen.destroy:
            demonstration.down(current)
        else:
            demonstration.up(current, steps)
    return 0


def _parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"./{name}",
        description=description,
        epilog=f"{epilog}\n\n{PLACES_HELP}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
