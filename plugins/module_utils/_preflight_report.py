# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The report: findings of all hosts as lines for people, and as counts for machines.

Hosts with the same finding stand together, so that 200 nodes with one fault are one line: names with a running
number are written as a range. Lines carry no quotes or backslashes, because Ansible prints them as JSON.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import ERROR, MENDED, WARNING, Finding

WIDTH = 110
MOST_DETAILS = 5
TITLES = {
    ERROR: "ERRORS: no role mends these, so nothing was changed",
    MENDED: "MENDED by a later role",
    WARNING: "WARNINGS",
}


@dataclass(frozen=True, slots=True)
class Report:
    errors: int
    mended: int
    warnings: int
    lines: tuple[str, ...]

    @property
    def summary(self) -> str:
        return f"{count(self.errors, 'error')}, {self.mended} mended by a later role, {count(self.warnings, 'warning')}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def make_report(findings: Sequence[tuple[str, Finding]], hosts: int) -> Report:
    """A finding counts once for each host."""
    lines: list[str] = []
    numbers = {}
    for level, title in TITLES.items():
        chosen = [(host, finding) for host, finding in findings if finding.level == level]
        numbers[level] = len(chosen)
        if chosen:
            lines += [*([""] if lines else []), title, *_section(chosen)]
    looked_at = f"preflight looked at {count(hosts, 'host')}"
    report = Report(numbers[ERROR], numbers[MENDED], numbers[WARNING], ())
    if not lines:
        return Report(0, 0, 0, (f"{looked_at}: nothing is wrong",))
    lines = [f"{looked_at}: {report.summary}", "", *lines]
    return Report(report.errors, report.mended, report.warnings, tuple(_plain(line) for line in lines))


def _section(findings: Iterable[tuple[str, Finding]]) -> list[str]:
    """One entry for each kind of finding, with the hosts and what each shows."""
    kinds: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, finding in findings:
        kinds[finding.id, finding.todo][finding.what].append(host)
    lines = []
    for (check, todo), details in kinds.items():
        lines.append(f"  [{check}]")
        shown = sorted(details.items(), key=lambda item: -len(item[1]))
        for what, hosts in shown[:MOST_DETAILS]:
            lines += _wrapped(f"{host_list(hosts)}: {what}", "    ", "      ")
        rest = [host for _what, hosts in shown[MOST_DETAILS:] for host in hosts]
        if rest:
            lines += _wrapped(f"{host_list(rest)}: the same in other words or figures", "    ", "      ")
        lines += _wrapped(todo, "    -> ", "       ")
    return lines


def host_list(hosts: Iterable[str]) -> str:
    """`w[01-12], db3 (13 hosts)`: runs of numbers as ranges, with a count where there is more than one host."""
    names = list(dict.fromkeys(hosts))
    if len(names) == 1:
        return names[0]
    return f"{', '.join(_ranges(names))} ({len(names)} hosts)"


def _ranges(names: Iterable[str]) -> list[str]:
    """Names that differ only in their last number, put together; numbers of other widths stay apart."""
    stems: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    parts: list[str] = []
    for name in names:
        numbered = re.fullmatch(r"(.*?)([0-9]{1,15})([^0-9]*)", name)
        if numbered:
            stem, digits, tail = numbered.groups()
            stems[stem, tail, len(digits)].append(int(digits))
        else:
            parts.append(name)
    for (stem, tail, width), numbers in stems.items():
        for first, last in _runs(sorted(numbers)):
            inside = f"{first:0{width}d}" if first == last else f"[{first:0{width}d}-{last:0{width}d}]"
            parts.append(f"{stem}{inside}{tail}")
    return sorted(parts)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each stretch without a gap; two neighbours stay single names."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and number == stretches[-1][-1] + 1:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    runs = []
    for stretch in stretches:
        if len(stretch) > 2:
            runs.append((stretch[0], stretch[-1]))
        else:
            runs += [(number, number) for number in stretch]
    return runs


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _plain(line: str) -> str:
    return line.replace('"', "'").replace("\\", "/")
