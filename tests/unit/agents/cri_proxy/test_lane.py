# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A lane: what it lets pass, shows, takes and puts between, however its bytes come."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.cri_proxy.frames import (
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
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    window_update,
)
from colocation.cri_proxy.lane import LONGEST_BLOCK, Lane, Stall, Verdict, Way


@dataclass
class Scribe:
    """A judge that writes down what it is asked, and answers as it is told."""

    judged = frozenset((HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE))
    ways: dict[int, Way] = field(default_factory=dict)
    verdicts: dict[int, Verdict] = field(default_factory=dict)  # by stream
    asked: list[tuple[object, ...]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    lane: Lane | None = None
    broken: bool = False

    def data(self, stream: int, flags: int, size: int) -> Way:
        return self.ways.get(stream, Way.PASS)

    def data_ended(self, stream: int, flags: int, payload: bytes, way: Way) -> None:
        self.asked.append((stream, flags, payload, way))
        if self.broken:
            raise RuntimeError("a bug")

    def whole(self, kind: int, flags: int, stream: int, payload: bytes) -> Verdict:
        self.asked.append((kind, flags, stream, payload))
        return self.verdicts.get(stream)

    def failed(self, problem: Exception) -> None:
        self.failures.append(problem)
        assert self.lane is not None
        self.lane.go_plain()


def made(preface: bytes = b"", **how: object) -> tuple[Scribe, Lane]:
    scribe = Scribe(**how)  # type: ignore[arg-type]
    scribe.lane = Lane(scribe, preface)
    return scribe, scribe.lane


def fed(lane: Lane, data: bytes, cuts: list[int] | None = None) -> bytes:
    """What comes out of it, fed in pieces; their memory is used anew at once, as the relay does."""
    out = b""
    places = sorted({min(cut, len(data)) for cut in cuts or []} | {0, len(data)})
    for begin, end in zip(places, places[1:], strict=False):
        buffer = bytearray(data[begin:end])
        lane.feed(memoryview(buffer))
        out += b"".join(lane.out)
        lane.out.clear()
        buffer[:] = b"\xee" * len(buffer)
    return out


FRAMES = st.lists(
    st.builds(
        frame,
        st.sampled_from([DATA, PRIORITY, SETTINGS, PING, GOAWAY, 77]),
        st.integers(0, 255).map(lambda flags: flags & ~PADDED),
        st.integers(0, 5),
        st.binary(max_size=60),
    ),
    max_size=20,
)
CUTS = st.lists(st.integers(0, 1500), max_size=30)


@given(FRAMES, CUTS)
def test_what_passes_is_not_changed(frames: list[bytes], cuts: list[int]) -> None:
    scribe, lane = made(PREFACE)
    data = PREFACE + b"".join(frames)
    assert fed(lane, data, cuts) == data
    assert not scribe.failures


@given(FRAMES, CUTS)
def test_what_is_taken_is_shown_and_does_not_come_out(frames: list[bytes], cuts: list[int]) -> None:
    scribe, lane = made(ways={1: Way.TAKE, 2: Way.COPY})
    taken = frame(DATA, END_STREAM, 1, b"taken")
    copied = frame(DATA, 0, 2, b"copied")
    others = [one for one in frames if one[8] not in (1, 2)]
    data = b"".join([*others, taken, copied, *others, taken])
    assert fed(lane, data, cuts) == b"".join([*others, copied, *others])
    shown = [asked for asked in scribe.asked if isinstance(asked[-1], Way)]
    take = (1, END_STREAM, b"taken", Way.TAKE)
    assert shown == [take, (2, 0, b"copied", Way.COPY), take]


@given(st.integers(0, 200), CUTS)
def test_ours_stands_between_frames(place: int, cuts: list[int]) -> None:
    """Wherever the lane is when it is told, what it puts in never tears a frame."""
    _scribe, lane = made()
    frames = [frame(DATA, 0, 3, bytes(40)), frame(HEADERS, 0, 5, b"a"), frame(CONTINUATION, END_HEADERS, 5, b"b")]
    frames.append(frame(DATA, 0, 3, bytes(30)))
    data = b"".join(frames)
    place = min(place, len(data))
    out = fed(lane, data[:place], cuts)
    ours = window_update(0, 1)
    lane.insert(ours)
    out += fed(lane, data[place:], cuts) or b"".join(lane.out)
    ends = [0, 49, 69, len(data)]  # not between a block and its continuation
    assert out in {data[:end] + ours + data[end:] for end in ends}


@given(CUTS)
def test_header_blocks_are_shown_whole_and_bare(cuts: list[int]) -> None:
    scribe, lane = made()
    padded = frame(HEADERS, PADDED | HAS_PRIORITY, 7, b"\x03" + b"\0\0\0\0\x10" + b"one" + b"\0\0\0")
    data = padded + frame(CONTINUATION, 0, 7, b"two") + frame(CONTINUATION, END_HEADERS, 7, b"three")
    assert fed(lane, data, cuts) == data
    assert scribe.asked == [(HEADERS, PADDED | HAS_PRIORITY, 7, b"onetwothree")]


def test_a_verdict_takes_the_place_of_a_frame() -> None:
    _scribe, lane = made(verdicts={3: b"", 5: window_update(5, 9)})
    ping = frame(PING, 0, 0, bytes(8))
    data = window_update(1, 8) + window_update(3, 8) + ping + window_update(5, 8) + ping
    assert fed(lane, data) == window_update(1, 8) + ping + window_update(5, 9) + ping


def test_a_stall_keeps_all_that_follows_until_it_ends() -> None:
    scribe, lane = made(verdicts={3: Stall.STALL})
    before, waits = frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS, 3, b"h") + frame(DATA, 0, 1, b"y")
    assert fed(lane, before + waits) == before
    assert fed(lane, frame(PING, 0, 0, bytes(8))) == b""
    assert lane.stalled
    scribe.verdicts.clear()
    lane.resume()
    assert b"".join(lane.out) == waits + frame(PING, 0, 0, bytes(8))
    assert not lane.stalled


BAD = {
    "a wrong preface": b"GET / HTTP/1.1\r\n\r\n.......",
    "a short WINDOW_UPDATE": PREFACE + frame(WINDOW_UPDATE, 0, 0, b"\0\0\0"),
    "a long RST_STREAM": PREFACE + frame(RST_STREAM, 0, 1, bytes(5)),
    "padding beyond the end": PREFACE + frame(HEADERS, PADDED | END_HEADERS, 1, b"\x09ab"),
    "padding without its size": PREFACE + frame(HEADERS, PADDED | END_HEADERS, 1, b""),
    "a CONTINUATION of nothing": PREFACE + frame(CONTINUATION, END_HEADERS, 1, b"a"),
    "a block that is not continued": PREFACE + frame(HEADERS, 0, 1, b"a") + frame(PING, 0, 0, bytes(8)),
    "a block that another stream continues": PREFACE + frame(HEADERS, 0, 1, b"a") + frame(CONTINUATION, 4, 3, b"b"),
    "a block without end": PREFACE + frame(HEADERS, 0, 1, b"a") + frame(CONTINUATION, 0, 1, bytes(LONGEST_BLOCK)),
    "a huge frame": PREFACE + frame(SETTINGS, 0, 0, bytes(LONGEST_BLOCK + 1)),
}


@pytest.mark.parametrize("data", BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("cuts", [[], [3], [24], [30], list(range(60))], ids=str)
def test_what_can_not_be_understood_passes_all_the_same(data: bytes, cuts: list[int]) -> None:
    scribe, lane = made(PREFACE)
    data += frame(DATA, 0, 1, b"after") + b"anything \0\xff"
    assert fed(lane, data, cuts) == data
    assert len(scribe.failures) == 1
    assert fed(lane, b"more") == b"more"


@pytest.mark.parametrize("way", [Way.TAKE, Way.COPY])
@pytest.mark.parametrize("cuts", [[], [4], [11], [12, 13]], ids=str)
def test_a_bug_in_the_judge_loses_no_byte(way: Way, cuts: list[int]) -> None:
    scribe, lane = made(ways={1: way}, broken=True)
    data = frame(DATA, 0, 1, b"content") + frame(PING, 0, 0, bytes(8))
    assert fed(lane, data, cuts) == data
    assert scribe.failures


@given(st.integers(0, 16))
def test_going_plain_in_the_middle_of_a_taken_frame_gives_it_back(place: int) -> None:
    _scribe, lane = made(ways={1: Way.TAKE})
    data = frame(DATA, 0, 1, b"content")
    place = min(place, len(data) - 1)
    assert fed(lane, data[:place]) == b""
    lane.go_plain()
    assert fed(lane, data[place:]) == data
