# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A client of grpcio that measures what cri_parts.go measures: the same words in, the same result out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import grpc

from colocation.common.protobuf import message_classes
from colocation.cri_proxy.protocol import RUNTIME

SIZES = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
SELECTOR = {
    "Request": {"filter": (1, "Filter")},
    "Filter": {"label_selector": (4, "map<string, string>")},
}


def main() -> None:
    wanted = json.load(sys.stdin)
    request = b""
    if wanted["Call"] == "ListContainers":
        selector = {"label_selector": {"size": str(wanted["Bytes"])}}
        request = message_classes("bench", SELECTOR)["Request"](filter=selector).SerializeToString()
    channels = [grpc.insecure_channel(f"unix:{path}", options=SIZES) for path in wanted["Sockets"]]
    calls = [channel.unary_unary(f"/{RUNTIME}/{wanted['Call']}") for channel in channels]
    found: dict[str, list[list[float]]] = {"Nanoseconds": [[] for _call in calls], "Seconds": [[] for _call in calls]}
    for turn in range(wanted["Rounds"] + 1):
        for place in range(len(calls)):
            number = (place + turn) % len(calls)
            times = burst(calls[number], request, wanted["Calls"])
            if turn:
                found["Nanoseconds"][number] += times
                found["Seconds"][number].append(sum(times) / 1e9)
    print(json.dumps(found))
    for channel in channels:
        channel.close()


def burst(call: Callable[..., bytes], request: bytes, count: int) -> list[float]:
    times = []
    for _call in range(count):
        began = time.perf_counter_ns()
        call(request, timeout=120)
        times.append(time.perf_counter_ns() - began)
    return times


if __name__ == "__main__":
    main()
