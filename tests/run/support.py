# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What is supported, from what the tests run: each scenario's cluster.yml and the locks say with which versions.

A scenario of the part `long` is run when somebody asks for it, so it makes nothing tested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.spec import ClusterSpec, parse_node
from ansible_collections.colocation.kubernetes.tests.run.scenarios import LONG, WITH_NEWEST_CORE

DEBIAN = {"bookworm": "12", "trixie": "13"}
DEBIANS_CONTAINERD = {"bookworm": "1.6", "trixie": "1.7"}  # a release keeps its minor version
EXPECTED = {
    "ansible-core": "2.20; later",
    "Kubernetes": "1.24 and later, with cgroup v2",
    "containerd": "2.x",
    "nodes": "Ubuntu 22.04 and 24.04, RHEL-like 9",
    "machines": "arm64; GPUs",
}
BEGIN, END = "<!-- made by ./test --refresh-docs -->\n", "<!-- made until here -->\n"


@dataclass(frozen=True, slots=True)
class Tested:
    """A scenario, and what it runs with."""

    name: str
    about: str
    core: str
    kubernetes: str
    containerds: tuple[str, ...]
    suites: tuple[str, ...]
    shapes: tuple[str, ...]
    asked_for: bool  # ./test does not run it by itself


def scenarios(collection: Path) -> list[Tested]:
    """All scenarios."""
    oldest, newest = (_core(collection / "tests" / f"{name}.lock") for name in ("requirements", "newest-core"))
    found = []
    for file in sorted(collection.glob("molecule/*/cluster.yml")):
        name, options = file.parent.name, yaml.safe_load(file.read_text())["cluster_options"]
        about = _comment(file.with_name("molecule.yml").read_text())
        core = newest if name in WITH_NEWEST_CORE else oldest
        found.append(_tested(name, about, core, options))
    return found


def _tested(name: str, about: str, core: str, options: Sequence[str]) -> Tested:
    pairs = list(zip(options[::2], options[1::2], strict=True))
    said = {option.lstrip("-"): value for option, value in pairs if option != "--node"}
    plain = ClusterSpec()
    nodes = [parse_node(value) for option, value in pairs if option == "--node"] or list(plain.nodes)
    suites = {node.suite or said.get("suite", plain.suite) for node in nodes}
    chosen = said.get("containerd", plain.containerd)
    containerds = {DEBIANS_CONTAINERD[suite] if chosen == "debian" else chosen for suite in suites}
    return Tested(
        name,
        about,
        core,
        said.get("kubernetes", plain.kubernetes),
        tuple(sorted(containerds)),
        tuple(sorted(suites)),
        tuple(node.shape for node in nodes),
        name in LONG,
    )


def _comment(settings: str) -> str:
    """The comment at the top of a scenario's molecule.yml: what it shows."""
    lines = [line[2:] for line in settings.splitlines() if line.startswith("# ")]
    if not lines:
        raise SystemExit("each molecule.yml begins with a comment that says what its scenario shows")
    return " ".join(lines)


def _core(lock: Path) -> str:
    found = re.search(r"^ansible-core==(\d+\.\d+)", lock.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{lock} has no ansible-core")
    return found[1]


def table(found: Sequence[Tested]) -> str:
    """README's table: what was tested, and what is expected to work as well."""
    run = [one for one in found if not one.asked_for]
    tested = {
        "ansible-core": _listed({one.core for one in run}),
        "Kubernetes": _listed({one.kubernetes for one in run}),
        "containerd": _listed({version for one in run for version in one.containerds}),
        "nodes": "Debian " + _listed({DEBIAN[suite] for one in run for suite in one.suites}),
        "machines": "x86-64",
    }
    rows = [f"| {what} | {tested[what]} | {expected} |" for what, expected in EXPECTED.items()]
    return "\n".join(["| | tested | expected to work |", "|---|---|---|", *rows]) + "\n"


def _listed(versions: set[str]) -> str:
    return ", ".join(sorted(versions, key=lambda version: [int(part) for part in version.split(".")]))


def page(found: Sequence[Tested], note: str) -> str:
    """docs/support.md: which scenario runs with what."""
    lines = [note, "", "# What is tested with what", "", table(found)]
    lines += [
        "*Tested* is what `./test` runs in VMs, each time, with the real programs: emulated x86-64 machines, kubelets",
        "that joined as kubeadm has them do it, one control plane. *Expected* was not run; tell us how it went.",
        "",
        *_rows([one for one in found if not one.asked_for]),
    ]
    if long := [one for one in found if one.asked_for]:
        lines += [
            "",
            "`./test long` runs these, for which no change can wait, so nothing above counts them:",
            "",
            *_rows(long),
        ]
    return "\n".join(lines) + "\n"


def _rows(found: Sequence[Tested]) -> list[str]:
    rows = [
        f"| `{one.name}` | {one.about} | {len(one.shapes)}: {', '.join(dict.fromkeys(one.shapes))} | "
        f"{_listed({DEBIAN[suite] for suite in one.suites})} | {one.kubernetes} | {_listed(set(one.containerds))} | "
        f"{one.core} |"
        for one in found
    ]
    head = "| scenario | shows | nodes | Debian | Kubernetes | containerd | ansible-core |"
    return [head, "|---|---|---|---|---|---|---|", *rows]


def put_into(readme: str, made: str) -> str:
    """The README with the table between its two marks."""
    before, begin, rest = readme.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has lost its marks {BEGIN.strip()} and {END.strip()} around the table of support")
    return before + begin + made + end + after
