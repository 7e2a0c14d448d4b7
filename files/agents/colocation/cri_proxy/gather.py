# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A process that needs a cache, for `effect`: `gather.py CPU OBJECTS SECONDS`. It imports nothing of ours.

It gathers objects in random order, in one loop of Python's own C code, from the moment on that its input has a line. It
prints `ready` before that, and how many objects it gathered in a second in the end.
"""

from __future__ import annotations

import operator
import os
import random
import sys
import time


def main(cpu: int, count: int, seconds: float) -> None:
    os.sched_setaffinity(0, {cpu})
    order = list(range(max(2, count)))
    random.Random(cpu).shuffle(order)
    gather, content = operator.itemgetter(*order), [float(number) for number in order]
    gather(content)
    print("ready", flush=True)
    sys.stdin.readline()
    done, began = 0, time.perf_counter()
    now = began
    while now < began + seconds:
        gather(content)
        done += len(order)
        now = time.perf_counter()
    print(done / (now - began))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
