# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""effect: what it is worth on this machine that two processes have caches of their own; `cri-resmgr effect` says the
same on a node. A machine with one cache for all has nothing to compare, and says so.
"""

from __future__ import annotations

import sys

from colocation.cri_proxy import effect, topology

TARGET = 0.9  # nobody loses; what is gained is the machine's affair


def main() -> int:
    try:
        where = effect.seats(topology.read(topology.Folder()))
    except effect.NoEffect as why:
        print(f"effect: nothing to measure, for {why} (target on machines with several caches ≥ {TARGET} ×) PASS")
        return 0
    found = effect.measure(where)
    print(effect.told(where, found))
    good = effect.gain(found) >= TARGET
    verdict = "PASS" if good else "FAIL"
    print(f"effect: kept apart, each is {effect.gain(found):.2f} × as fast (target ≥ {TARGET} ×) {verdict}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
