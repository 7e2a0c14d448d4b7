# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The nodes' loads and scores for one profile, kept ready for kinds of pods that were asked for.

Pods of one kind ask for the same and are expected to use the same; a burst is of few kinds. A table has every node's
load and the text of its score, and is brought up to date by the nodes that changed since it was last used: by one after
a booking, by all after a round of measuring. So an answer costs some lookups in C for each node, not arithmetic.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from colocation.scheduler.node_load import NodeLoad
from colocation.scheduler.pods import Amount
from colocation.scheduler.score import FULL, MOST, Row, Rules, load, score, sides

TABLES = 32  # kinds of pods that are remembered
TAILS = tuple(f"{points}}}" for points in range(MOST + 1))


class Need(NamedTuple):
    """A kind of pod: what it will use and what it asks for."""

    use: Amount
    request: Amount


class Ranked(NamedTuple):
    """An answer for kube-scheduler, and what was chosen."""

    text: str
    favourite: str | None  # None where no node takes more, or none is known
    load: float
    full: int  # nodes that take no more
    unknown: int  # names that are no node of ours


class _Table:
    """Every node's load and score for one kind of pod."""

    __slots__ = ("epoch", "loads", "seen", "texts")

    def __init__(self) -> None:
        self.loads: dict[str, float] = {}
        self.texts: dict[str, str] = {}
        self.epoch = -1
        self.seen = 0  # of the log


class Ranking:
    """One profile's tables."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._rows: dict[str, Row] = {}
        self._changed: set[str] = set()
        self._log: list[str] = []  # names of rows that changed, in order
        self._epoch = 0  # another one when the log began anew
        self._tables: OrderedDict[Need, _Table] = OrderedDict()
        self.asked = False  # whether anybody ever wanted a score
        self._heads: dict[str, str] = {}  # a node's part of an answer, without the score

    def touch(self, name: str) -> None:
        """That node has changed, or is no more."""
        self._changed.add(name)

    def refresh(self, nodes: Mapping[str, NodeLoad]) -> None:
        """Work out anew what has changed."""
        for name in self._changed:
            node = nodes.get(name)
            if node is None:
                self._forget(name)
                continue
            if name not in self._heads:
                self._heads[name] = _head(name)
            self._rows[name] = sides(node, self.rules)
            self._log.append(name)
        self._changed.clear()
        if len(self._log) > 4 * len(self._rows) + 100:
            self._begin_anew()

    def rank(
        self, names: Sequence[str], need: Need, pod: str, nodes: Mapping[str, NodeLoad], best_only: bool = False
    ) -> Ranked:
        """Score those nodes for a pod; `pod` only decides between equals, always in the same way. With `best_only` the
        text has the favourite alone."""
        self.asked = True
        self.refresh(nodes)
        table = self._table(need)
        unknown = 0
        try:
            loads = list(map(table.loads.__getitem__, names))
        except KeyError:
            loads = [table.loads.get(name, FULL) for name in names]
            unknown = sum(name not in table.loads for name in names)
        best = min(loads, default=FULL)
        texts = [] if best_only else self._texts(names, table)
        favourite = None
        if best < FULL:
            place = _chosen(names, loads, best, pod)
            favourite = names[place]
            texts[place : place + 1] = [self._heads[favourite] + TAILS[MOST]]  # of no texts it is the only one
        return Ranked(f"[{','.join(texts)}]", favourite, best, loads.count(FULL) - unknown, unknown)

    def _texts(self, names: Sequence[str], table: _Table) -> list[str]:
        try:
            return list(map(table.texts.__getitem__, names))
        except KeyError:
            return [table.texts.get(name) or _head(name) + TAILS[0] for name in names]

    def row(self, name: str, nodes: Mapping[str, NodeLoad]) -> Row:
        """A node's side of the sum."""
        self.refresh(nodes)
        return self._rows.get(name)

    def rows(self, nodes: Mapping[str, NodeLoad]) -> dict[str, Row]:
        """All nodes' sides, as they are now."""
        self.refresh(nodes)
        return dict(self._rows)

    def _table(self, need: Need) -> _Table:
        table = self._tables.get(need)
        if table is None:
            table = self._tables[need] = _Table()
            if len(self._tables) > TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(need)
        if table.epoch != self._epoch or len(self._log) - table.seen > len(self._rows):
            self._fill(table, need, self._rows)
        elif table.seen < len(self._log):
            self._fill(table, need, {name: self._rows[name] for name in self._log[table.seen :]})
        table.epoch, table.seen = self._epoch, len(self._log)
        return table

    def _fill(self, table: _Table, need: Need, rows: Mapping[str, Row]) -> None:
        resources, full_at = self.rules.weighted, self.rules.profile.full_at
        (first, *others), loads, texts, heads = resources, table.loads, table.texts, self._heads
        use, request = need[0][first], need[1][first]
        for name, row in rows.items():
            if row and not others and len(row[0][1]) == 1:  # as `load`, for what most profiles have: one line
                ((_weight, ((at, by_use, by_request),)),) = row
                here = at + by_use * use + by_request * request
                here = here if here < full_at else FULL
            else:
                here = load(row, *need, resources, full_at)
            loads[name] = here
            texts[name] = heads[name] + TAILS[score(here, full_at)]

    def _forget(self, name: str) -> None:
        if self._heads.pop(name, None) is not None:
            del self._rows[name]
            self._begin_anew()
            self._tables.clear()

    def _begin_anew(self) -> None:
        self._log.clear()
        self._epoch += 1


def _head(name: str) -> str:
    return f'{{"Host":{json.dumps(name)},"Score":'


def _chosen(names: Sequence[str], loads: Sequence[float], best: float, pod: str) -> int:
    """The place of the best node; of equals the one that a hash of both names puts first."""
    place = loads.index(best)
    equals = [place]
    for _more in range(loads.count(best) - 1):
        place = loads.index(best, place + 1)
        equals.append(place)
    if len(equals) == 1:
        return place
    start = zlib.crc32(pod.encode(errors="replace"))
    return min(equals, key=lambda place: (zlib.crc32(names[place].encode(errors="replace"), start), names[place]))
