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
    counts: bool = False
    ways: dict[int, Way] = field(default_factory=dict)
    verdicts: dict[int, Verdict] = field(default_factory=dict)  # by stream
    asked: list[tuple[object, ...]] = field(default_factory=list)
    heads: list[tuple[int, int]] = field(default_factory=list)  # stream and flags of DATA that began
    failures: list[Exception] = field(default_factory=list)
    lane: Lane | None = None
    broken: bool = False

    def data(self, stream: int, flags: int, size: int) -> Way:
        self.heads.append((stream, flags))
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


def fed(lane: Lane, data: bytes, cuts: list[int] | None = None, ahead: bool = False) -> bytes:
    """What comes out of it, fed in pieces; their memory is used anew at once, as the relay does.

    `ahead`: what surely passes goes on first.
    """
    out = b""
    places = sorted({min(cut, len(data)) for cut in cuts or []} | {0, len(data)})
    for begin, end in zip(places, places[1:], strict=False):
        buffer = bytearray(data[begin:end])
        first = lane.ahead(memoryview(buffer), frozenset()) if ahead else 0
        out += buffer[:first]
        lane.feed(memoryview(buffer), first)
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


@given(FRAMES, CUTS, st.booleans(), st.booleans())
def test_what_passes_is_not_changed(frames: list[bytes], cuts: list[int], counts: bool, ahead: bool) -> None:
    scribe, lane = made(b"" if ahead else PREFACE, counts=counts)
    data = (b"" if ahead else PREFACE) + b"".join(frames)
    assert fed(lane, data, cuts, ahead) == data
    assert not scribe.failures


@given(st.integers(1, 9), st.integers(0, 60), CUTS)
def test_frames_that_repeat_are_counted_for_those_who_count(times: int, size: int, cuts: list[int]) -> None:
    """A large message is a row of frames with one head; the first speaks for all, where it may."""
    same, last = frame(DATA, 0, 3, bytes(50)), frame(DATA, END_STREAM, 3, bytes(50))
    data = same * times + last + frame(DATA, 0, 5, bytes(size)) + same
    expected = [(3, 0)] * times + [(3, END_STREAM), (5, 0), (3, 0)]
    scribe, lane = made(counts=True)
    assert fed(lane, data, cuts) == data
    assert scribe.heads == expected
    scribe, lane = made(counts=False)
    assert fed(lane, data, cuts) == data
    assert list(dict.fromkeys(scribe.heads)) == list(dict.fromkeys(expected))
    assert scribe.heads[-3:] == expected[-3:]
    assert cuts or len(scribe.heads) == 4


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


@given(st.integers(0, 300), CUTS, CUTS)
def test_ours_stands_between_frames_of_which_some_went_ahead(place: int, before: list[int], after: list[int]) -> None:
    _scribe, lane = made()
    data = b"".join(
        [
            frame(DATA, 0, 3, bytes(40)),
            window_update(3, 7),
            frame(HEADERS, 0, 5, b"a"),
            frame(CONTINUATION, END_HEADERS, 5, b"b"),
            frame(DATA, 0, 3, bytes(90)),
            frame(DATA, 0, 5, bytes(30)),
        ]
    )
    place = min(place, len(data))
    out = fed(lane, data[:place], before, ahead=True)
    ours = window_update(0, 1)
    lane.insert(ours)
    out += fed(lane, data[place:], after, ahead=True) or b"".join(lane.out)
    ends = [0, 49, 62, 82, 181, len(data)]
    assert out in {data[:end] + ours + data[end:] for end in ends}


def test_a_frame_that_is_to_be_judged_does_not_go_ahead_in_part() -> None:
    data = frame(DATA, 0, 3, b"x") + window_update(0, 9) + frame(DATA, 0, 3, bytes(20))
    for size, most in ((5, 0), (9, 9), (10, 10), (22, 10), (23, 23), (31, 23), (32, 32), (40, 40)):
        _scribe, lane = made()
        assert lane.ahead(memoryview(data[:size]), frozenset()) == most, size
        assert lane.ahead(memoryview(data[:size]), frozenset({WINDOW_UPDATE})) == min(most, 10), size
    _scribe, lane = made()
    block = frame(HEADERS, 0, 3, b"a") + frame(CONTINUATION, END_HEADERS, 3, b"b")
    assert lane.ahead(memoryview(block), frozenset()) == 0


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
@pytest.mark.parametrize("ahead", [False, True])
def test_what_can_not_be_understood_passes_all_the_same(data: bytes, cuts: list[int], ahead: bool) -> None:
    data += frame(DATA, 0, 1, b"after") + b"anything \0\xff"
    if ahead:
        data = data.removeprefix(PREFACE)
    scribe, lane = made(b"" if ahead else PREFACE)
    assert fed(lane, data, cuts, ahead) == data
    assert len(scribe.failures) == 1 or data.startswith(b"GET")
    assert fed(lane, b"more", ahead=ahead) == b"more"


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
