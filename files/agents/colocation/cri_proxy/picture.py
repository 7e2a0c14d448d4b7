# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The machine with its containers on it: for a terminal, as JSON, as SVG. Values in, text out.

A container stands where all of its CPUs are: on its CCX, else on its NUMA node, its socket, or the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from colocation.common.status import Status, printable
from colocation.cri_proxy.cpus import parse, show
from colocation.cri_proxy.ledger import Entry
from colocation.cri_proxy.topology import Ccx, Machine, Numa, Socket

CONTAINERS = "Containers"
COLUMNS = ("container", "CPUs", "memory of NUMA", "place", "asked", "kind")
KINDS = ("online", "batch", "exclusive", "system")
_COLORS = {"online": "32", "batch": "33", "exclusive": "35", "system": "36"}
_BAR = 16


@dataclass(frozen=True, slots=True)
class Shown:
    """A container of the picture."""

    name: str
    cpus: int
    asked: float
    kind: str


def kind_of(entry: Entry) -> str:
    """What sort of container it is."""
    return "system" if entry.system else "exclusive" if entry.alone else "batch" if entry.batch else "online"


def place_of(entry: Entry) -> str:
    """The shape of its place."""
    return "system" if entry.system else entry.shape.name.lower()


def shown_in(status: Status) -> list[Shown]:
    """The containers in a running agent's status."""
    rows = [
        row for table in status.tables if (table.title, table.columns) == (CONTAINERS, COLUMNS) for row in table.rows
    ]
    return [Shown(str(row[0]), parse(str(row[1])), float(row[4] or 0), str(row[5])) for row in rows]


def summary(machine: Machine) -> str:
    """The machine in a line."""
    counts = ((len(machine.sockets), "socket"), (len(machine.numas), "NUMA node"), (len(machine.ccxs), "CCX"))
    parts = (f"{count} {name}{_plural(name) if count != 1 else ''}" for count, name in counts)
    return f"{', '.join(parts)}, {machine.online.bit_count()} CPUs"


def _plural(name: str) -> str:
    return "es" if name.endswith("X") else "s"


def to_text(machine: Machine, containers: Sequence[Shown], color: bool = False) -> str:
    """For a terminal."""
    lines = [summary(machine)]
    lines += [f"  ! {note}" for note in machine.notes]
    if machine.isolated:
        lines.append(f"  isolated CPUs: {show(machine.isolated)}")
    lines += [_line(one, "  ", color) for one in _at(machine, containers, machine)]
    for socket in machine.sockets:
        lines.append(f"socket {socket.id}")
        lines += [_line(one, "│   ", color) for one in _at(machine, containers, socket)]
        for numa in socket.numas:
            last = numa is socket.numas[-1]
            stem = "    " if last else "│   "
            memory = machine.memory_kib.get(numa.id, 0)
            size = f"  {memory / (1 << 20):.1f} GiB" if memory else ""
            lines.append(f"{'└' if last else '├'}── NUMA {numa.id}{size}  CPUs {show(numa.cpus)}")
            lines += [_line(one, f"{stem}│   ", color) for one in _at(machine, containers, numa)]
            for ccx in numa.ccxs:
                end = ccx is numa.ccxs[-1]
                lines.append(f"{stem}{'└' if end else '├'}── {_ccx(ccx, containers)}")
                below = f"{stem}{'    ' if end else '│   '}  "
                lines += [_line(one, below, color) for one in _at(machine, containers, ccx)]
    return "\n".join(lines) + "\n"


def to_json(machine: Machine, containers: Sequence[Shown]) -> str:
    """For programs."""

    def part(where: Any, **more: Any) -> dict[str, Any]:
        here = [
            {"name": o.name, "cpus": show(o.cpus), "asked": o.asked, "kind": o.kind}
            for o in _at(machine, containers, where)
        ]
        return {**more, "cpus": show(_cpus(where)), "containers": here}

    def of_ccx(ccx: Ccx) -> dict[str, Any]:
        return part(ccx, ccx=ccx.index, l3_kib=ccx.cache_kib, cores=[show(core) for core in ccx.cores])

    def of_numa(numa: Numa) -> dict[str, Any]:
        inner = [of_ccx(ccx) for ccx in numa.ccxs]
        return part(numa, numa=numa.id, memory_kib=machine.memory_kib.get(numa.id, 0), ccxs=inner)

    sockets = [
        part(socket, socket=socket.id, numas=[of_numa(numa) for numa in socket.numas]) for socket in machine.sockets
    ]
    document = part(machine, isolated=show(machine.isolated), notes=list(machine.notes), sockets=sockets)
    return json.dumps(document, indent=1) + "\n"


def drawn(machine: Machine, status: Status) -> str:
    """The machine with the containers of a status."""
    return to_svg(machine, shown_in(status))


def to_svg(machine: Machine, containers: Sequence[Shown]) -> str:
    """A self-contained picture: a column a socket, a box a NUMA node, a row a CCX."""
    drawing = _Drawing()
    drawing.text(16, 28, summary(machine), "title")
    top = 44 + 18 * drawing.names(16, 44, _at(machine, containers, machine))
    deepest = top
    for column, socket in enumerate(machine.sockets):
        x, y = 16 + column * 500, top + 20
        drawing.text(x, y, f"socket {socket.id}", "head")
        y += 8 + 18 * drawing.names(x, y + 16, _at(machine, containers, socket))
        for numa in socket.numas:
            y = _svg_numa(drawing, machine, containers, numa, x, y)
        deepest = max(deepest, y)
    return drawing.document(32 + 500 * len(machine.sockets), deepest + 16)


def _svg_numa(drawing: _Drawing, machine: Machine, containers: Sequence[Shown], numa: Numa, x: int, y: int) -> int:
    """Draw a node; where the next begins."""
    begin = y
    drawing.text(x + 10, y + 20, f"NUMA {numa.id} · CPUs {show(numa.cpus)}", "soft")
    y += 28 + 18 * drawing.names(x + 10, y + 40, _at(machine, containers, numa))
    for ccx in numa.ccxs:
        here = _at(machine, containers, ccx)
        height = 26 + 18 * len(here)
        drawing.box(x + 10, y, 464, height, "ccx")
        asked = _asked(ccx.cpus, containers)
        filled = min(1.0, asked / ccx.cpus.bit_count())
        drawing.gauge(x + 354, y + 9, 110, filled)
        drawing.text(x + 20, y + 18, f"CCX {ccx.index} · {show(ccx.cpus)}", "")
        drawing.names(x + 30, y + 36, here)
        y += height + 6
    drawing.box(x, begin, 484, y - begin + 4, "numa")
    return y + 14


class _Drawing:
    """The parts of an SVG."""

    def __init__(self) -> None:
        self._boxes: list[str] = []
        self._texts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, kind: str) -> None:
        made = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
        self._boxes.insert(0, made) if kind == "numa" else self._boxes.append(made)

    def gauge(self, x: int, y: int, width: int, filled: float) -> None:
        self._boxes.append(f'<rect class="bar" x="{x}" y="{y}" width="{width}" height="9" rx="4"/>')
        self._boxes.append(f'<rect class="load" x="{x}" y="{y}" width="{round(width * filled)}" height="9" rx="4"/>')

    def text(self, x: int, y: int, text: str, kind: str) -> None:
        self._texts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(printable(text))}</text>')

    def names(self, x: int, y: int, containers: Sequence[Shown]) -> int:
        """Lines of containers; how many."""
        for number, one in enumerate(containers):
            kind = one.kind if one.kind in KINDS else "soft"
            self.text(x, y + 18 * number, f"{one.name} · {one.asked:g} CPU", kind)
        return len(containers)

    def document(self, width: int, height: int) -> str:
        style = (
            f"text{{font:13px system-ui,sans-serif;{_paint('fill', 'text', '#1c2330')}}}.title{{font-size:16px}}"
            f".title,.head{{font-weight:600}}.soft{{{_paint('fill', 'soft', '#5d6878')}}}"
            f".sheet,.ccx{{{_paint('fill', 'card', '#ffffff')}}}.numa{{{_paint('fill', 'ground', '#f6f7f9')}}}"
            f".numa,.ccx{{{_paint('stroke', 'line', '#d5dae2')}}}.bar{{{_paint('fill', 'line', '#e1e5eb')}}}"
            f".load{{fill:#3b82c4}}.online{{{_paint('fill', 'good', '#12734a')}}}"
            ".batch{fill:#b06a00}.exclusive{fill:#9a5bc4}.system{fill:#3b82c4}"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
            f'<style>{style}</style><rect class="sheet" width="100%" height="100%"/>'
            f"{''.join(self._boxes)}{''.join(self._texts)}</svg>\n"
        )


def _paint(what: str, name: str, plain: str) -> str:
    """The status page's own colour, which follows the reader's choice of light or dark; a plain one everywhere else."""
    return f"{what}:{plain};{what}:var(--{name},{plain})"


def _ccx(ccx: Ccx, containers: Sequence[Shown]) -> str:
    cache = f"  L3 {ccx.cache_kib / 1024:g} MiB" if ccx.cache_kib else ""
    size = ccx.cpus.bit_count()
    asked = _asked(ccx.cpus, containers)
    filled = min(_BAR, round(asked / size * _BAR))
    gauge = "█" * filled + "░" * (_BAR - filled)
    return f"CCX {ccx.index}{cache}  CPUs {show(ccx.cpus)}  {gauge} {asked:.3g} of {size} asked"


def _asked(cpus: int, containers: Iterable[Shown]) -> float:
    """CPUs that containers asked for here, each by the part of its CPUs that are here."""
    return sum(
        one.asked * (one.cpus & cpus).bit_count() / one.cpus.bit_count() for one in containers if one.cpus & cpus
    )


def _line(one: Shown, indent: str, color: bool) -> str:
    mark = "" if one.kind == "online" else f" ({one.kind})"
    text = f"• {printable(one.name)}{mark}  {one.asked:g} CPU  {show(one.cpus)}"
    return f"{indent}\033[{_COLORS[one.kind]}m{text}\033[0m" if color and one.kind in _COLORS else f"{indent}{text}"


def _cpus(where: Machine | Socket | Numa | Ccx) -> int:
    return where.online if isinstance(where, Machine) else where.cpus


def _at(machine: Machine, containers: Sequence[Shown], where: Machine | Socket | Numa | Ccx) -> list[Shown]:
    """The containers that stand there and nowhere further down."""
    inner = [part for part in _below(machine, where) if part is not where]
    mine = _cpus(where)
    return [
        one
        for one in containers
        if not one.cpus & ~mine and not any(one.cpus and not one.cpus & ~_cpus(part) for part in inner)
    ]


def _below(machine: Machine, where: Machine | Socket | Numa | Ccx) -> Iterator[Socket | Numa | Ccx]:
    if isinstance(where, Machine):
        yield from machine.sockets
    elif isinstance(where, Socket):
        yield from where.numas
    elif isinstance(where, Numa):
        yield from where.ccxs
