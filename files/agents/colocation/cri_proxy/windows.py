# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What may be sent to a server where a relay in between holds, changes and repeats what its client sent.

The server's windows are not quite the client's any more: what is held was paid by the client and has not reached the
server; what an edit adds reaches the server and nobody paid. So for the connection, and for each stream, this is kept:

    what the client believes + what it paid for what is held = what the server allows - what is on its way + debt

Nothing is sent that `size`, the server's side, does not allow. The debt is what the client was told too much; it is
taken off the server's next WINDOW_UPDATEs, and never negative: what the client could have too little it gets at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """Of a connection or a stream."""

    size: int
    debt: int = 0

    def granted(self, amount: int) -> int:
        """The server allows more: what of that the client is told."""
        self.size += amount
        kept = min(amount, self.debt)
        self.debt -= kept
        return amount - kept

    def owe(self, amount: int) -> int:
        """More (or less) is sent than the client paid: what the client is told at once."""
        self.debt += amount
        told = max(-self.debt, 0)
        self.debt += told
        return told
