# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Frames that nobody would send: no exception, no hang, no growth, and what can't be understood passes.

COLOCATION_FUZZ_FRAMES=5000000 runs as many changed frames, and the sound ones between them; the suite is content with a
few.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time

import hpack
import pytest

from colocation.cri_proxy.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from colocation.cri_proxy.hpack import Headers
from colocation.cri_proxy.lane import Lane
from colocation.cri_proxy.tunnel import MOST_HELD_IN_ALL, Tunnel

FRAMES = int(os.environ.get("COLOCATION_FUZZ_FRAMES", "20000"))
SLOWEST_SECONDS = 2.0  # of one life of some hundred frames, on a machine that does other things too
MOST_GROWTH = 4 << 20  # bytes of the process, in a long run that has it for itself
MOST_BLOCKS = 20  # more pieces of memory in use after half of the lives than after a quarter
KINDS_UP = (HEADERS,) * 5 + (DATA,) * 10 + (WINDOW_UPDATE, SETTINGS, RST_STREAM, PING, PRIORITY, 77)
KINDS_DOWN = (
    (HEADERS,) * 3 + (DATA,) * 3 + (WINDOW_UPDATE,) * 6 + (SETTINGS, RST_STREAM, PING, PUSH_PROMISE, GOAWAY, 77)
)
MARK = b"the end of it all"


class Ending:
    """An interest that counts its endings."""

    def __init__(self, holds: bool, source: random.Random) -> None:
        self.holds = holds
        self.random = source
        self.endings = 0

    def requested(self, body: bytes) -> bytes:
        roll = self.random.randrange(4)
        if roll == 0:
            raise RuntimeError("the policy is broken")
        return (body, body + b"more", body[: len(body) // 2])[roll - 1]

    def let_go(self, why: str) -> None:
        pass

    def answered(self, trailers: Headers, body: bytes | None) -> None:
        self.endings += 1

    def lost(self, why: str, certain: bool) -> None:
        self.endings += 1


class Life:
    """One connection, from a seed: mostly frames that make sense, some with a change, cut anywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.endings: list[Ending] = []
        self.tunnel = Tunnel(self.interested, lambda _part, _problem: None)
        self.encoders = (hpack.Encoder(), hpack.Encoder())
        self.next = 1
        self.mutation = self.random.choice((0.0, 0.01, 0.2, *[1.0] * 5))
        self.mutated = 0  # frames that were changed

    def interested(self, headers: Headers) -> Ending | None:
        roll = self.random.randrange(3)
        if not roll:
            return None
        self.endings.append(Ending(roll == 1, self.random))
        return self.endings[-1]

    def live(self, most: int) -> None:
        """So many frames, or a few more than are understood."""
        self.feed(True, PREFACE)
        fed = after = 0
        while fed < most and after < 5:
            fed += 1
            after += self.tunnel.plain
            up = self.random.random() < 0.6
            self.feed(up, self.changed(self.some_frame(up)))
            if self.random.random() < 0.01:
                self.tunnel.tick()
            assert sum(stream.size for stream in self.tunnel.held.values()) <= MOST_HELD_IN_ALL + (1 << 14)

    def end(self) -> None:
        """It is over; what comes after something that was not understood comes out as it went in."""
        if self.tunnel.plain:
            for lane, feed in ((self.tunnel.up, self.tunnel.from_client), (self.tunnel.down, self.tunnel.from_server)):
                feed(bytes(lane._left))  # at the end of a frame what was held for it may come
                lane.out.clear()
                feed(MARK)
                assert b"".join(lane.out) == MARK
        self.tunnel.closed()
        assert all(ending.endings == 1 for ending in self.endings)
        assert not self.tunnel.streams

    def feed(self, up: bool, data: bytes) -> None:
        while data:
            cut = self.random.choice((1, 8, 9, 10, 50, 1 << 20))
            piece, data = data[:cut], data[cut:]
            if up:
                self.tunnel.from_client(piece)
            else:
                self.tunnel.from_server(piece, self.tunnel.ahead(memoryview(piece)))
            self.forget(self.tunnel.up)
            self.forget(self.tunnel.down)

    @staticmethod
    def forget(lane: Lane) -> None:
        lane.out.clear()

    def some_frame(self, up: bool) -> bytes:
        draw = self.random
        if draw.random() < self.mutation / 2:
            return frame(draw.randrange(12), draw.randrange(256), draw.randrange(32), bytes(draw.randrange(300)))
        kind = draw.choice(KINDS_UP if up else KINDS_DOWN)
        stream = max(self.next - 2 * draw.randrange(1, 6), 1)
        ends = draw.choice((0, 0, END_STREAM))
        if kind == HEADERS:
            if up and draw.random() < 0.7:
                stream, self.next = self.next, self.next + 2
            return self.header_frames(stream, ends, up)
        if kind == DATA:
            return self.data_frame(stream, ends)
        if kind == WINDOW_UPDATE:
            amount = draw.choice((1, 100, 70_000, draw.randrange(1, 2**31)))
            return frame(kind, 0, draw.choice((0, stream)), amount.to_bytes(4, "big"))
        if kind == SETTINGS:
            return self.settings_frame()
        return {
            RST_STREAM: lambda: frame(kind, 0, stream, draw.choice((0, 7, 8)).to_bytes(4, "big")),
            GOAWAY: lambda: frame(kind, 0, 0, draw.choice((stream, 2**31 - 1)).to_bytes(4, "big") + bytes(4)),
            PUSH_PROMISE: lambda: frame(kind, END_HEADERS, stream, bytes(4) + self.block(up)),
        }.get(kind, lambda: frame(kind, 0, 0, bytes(5 if kind == PRIORITY else 8)))()

    def data_frame(self, stream: int, ends: int) -> bytes:
        size = self.random.choice((0, 1, 5, 60, 900, 16_384))
        if not size or self.random.random() < 0.8:
            return frame(DATA, ends, stream, bytes(size))
        padding = min(self.random.randrange(256), size - 1)
        return frame(DATA, ends | PADDED, stream, bytes([padding]) + bytes(size - 1))

    def header_frames(self, stream: int, ends: int, up: bool) -> bytes:
        draw = self.random
        block = self.block(up)
        if draw.random() < 0.1:
            block, ends = bytes(5) + block, ends | HAS_PRIORITY
        if draw.random() < 0.8:
            return frame(HEADERS, ends | END_HEADERS, stream, block)
        cut = draw.randrange(5 if ends & HAS_PRIORITY else 0, len(block) + 1)
        return frame(HEADERS, ends, stream, block[:cut]) + frame(CONTINUATION, END_HEADERS, stream, block[cut:])

    def settings_frame(self) -> bytes:
        draw = self.random
        if draw.random() < 0.5:
            return frame(SETTINGS, ACK, 0)
        chosen = [
            (draw.randrange(8), draw.choice((0, 1, 100, 65_535, 2**24, 2**31 - 1))) for _n in range(draw.randrange(4))
        ]
        return frame(SETTINGS, 0, 0, b"".join(n.to_bytes(2, "big") + value.to_bytes(4, "big") for n, value in chosen))

    def block(self, up: bool) -> bytes:
        draw = self.random
        headers = [(":path", draw.choice(("/a", "/b"))), ("x-n", "v" * draw.randrange(30)), ("grpc-status", "0")]
        made: bytes = self.encoders[up].encode(headers[: draw.randrange(4)])
        return made

    def changed(self, data: bytes) -> bytes:
        if self.random.random() >= self.mutation:
            return data
        self.mutated += 1
        made = bytearray(data)
        for _change in range(self.random.randrange(1, 4)):
            place = min(self.random.choice((self.random.randrange(9), self.random.randrange(len(made)))), len(made) - 1)
            made[place] = self.random.choice((0, 1, 0xFF, self.random.randrange(256)))
        if self.random.random() < 0.1:
            del made[self.random.randrange(len(made)) :]
        return bytes(made)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_use() -> int:
    """Pieces of memory that something still points to; unlike the process's size, not what other tests did before."""
    gc.collect()
    return sys.getallocatedblocks()


def hangs(_signal: int, _frame: object) -> None:
    raise TimeoutError("it hangs")


@pytest.mark.parametrize("start", [0, 1 << 40])
def test_frames_that_nobody_would_send(start: int) -> None:
    fed, slowest, seed = 0, 0.0, start
    settled = blocks = 0
    signal.signal(signal.SIGVTALRM, hangs)
    while fed < FRAMES // 2:
        seed += 1
        begun = time.process_time()
        life = Life(seed)
        signal.setitimer(signal.ITIMER_VIRTUAL, 10 * SLOWEST_SECONDS)
        try:
            life.live(life.random.randrange(20, 400))
            life.end()
            fed += life.mutated
        except Exception as problem:
            raise AssertionError(f"the life of seed {seed} is broken") from problem
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        slowest = max(slowest, time.process_time() - begun)
        del life
        if fed < FRAMES // 4:
            settled = max(settled, resident())
        elif not blocks:
            blocks = in_use()
    assert slowest < SLOWEST_SECONDS
    assert in_use() - blocks < MOST_BLOCKS
    if "COLOCATION_FUZZ_FRAMES" in os.environ:
        assert resident() - settled < MOST_GROWTH
