# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What pods of an owner used so far: the guess at what its next pod will use."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable

from colocation.scheduler.pods import Amount

OWNERS = 20_000  # the ones that were seen lately
NEWS = 0.2  # the part of a new round in what is known; the last dozen rounds decide


class Learned:
    """An average for each owner: of its pods in a round, and over the rounds."""

    def __init__(self) -> None:
        self._uses: OrderedDict[str, Amount] = OrderedDict()

    def use(self, owner: str) -> Amount | None:
        """What a pod of that owner uses, if one was ever measured."""
        return self._uses.get(owner)

    def learn(self, measured: Iterable[tuple[str, Amount]]) -> None:
        """Take a round of measuring: owner and use of each pod."""
        sums: dict[str, list[float]] = {}
        for owner, use in measured:
            if all(math.isfinite(amount) and amount >= 0 for amount in use):
                total = sums.setdefault(owner, [0.0, 0.0, 0.0])
                total[0] += use.cpu
                total[1] += use.memory
                total[2] += 1
        for owner, (cpu, memory, count) in sums.items():
            now = Amount(cpu / count, memory / count)
            known = self._uses.get(owner, now)
            self._uses[owner] = Amount(*(old + NEWS * (new - old) for old, new in zip(known, now, strict=True)))
            self._uses.move_to_end(owner)
        while len(self._uses) > OWNERS:
            self._uses.popitem(last=False)
