# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A client and a server of the h2 library with a tunnel between them, in memory, and a seed that decides what happens.

Both do whatever HTTP/2 allows, in any order: bytes arrive in pieces of any size, streams interleave, windows starve,
settings change, one side resets or answers early, the server takes no more calls. Both check each other as h2 does: a
frame that is not allowed, or one byte more than a window, is an exception. At the end all that is open is brought to
its end; if that does not come, the tunnel starves somebody.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
from h2.settings import SettingCodes
from hyperframe.frame import Frame, GoAwayFrame

from colocation.cri_proxy.frames import GOAWAY, frame
from colocation.cri_proxy.hpack import Headers
from colocation.cri_proxy.tunnel import Tunnel

Body = Callable[[bytes], bytes]
MOST_STREAM = (1 << 31) - 1
MOST_STREAMS = 100  # at a time, as h2 has it before the server says more
EDITS: dict[str, Body] = {
    "same": lambda body: body,
    "grow": lambda body: body + b"+" * 50,
    "double": lambda body: body + body,
    "shrink": lambda body: body[: len(body) // 3],
    "empty": lambda _body: b"",
}


@dataclass
class Watcher:
    """What an interest was told."""

    holds: bool
    edit: str
    body: bytes | None = None
    gone: list[str] = field(default_factory=list)
    endings: list[tuple[str, object]] = field(default_factory=list)
    answer: bytes | None = None

    def requested(self, body: bytes) -> bytes:
        assert self.body is None
        self.body = body
        if self.edit == "raise":
            raise RuntimeError("the policy is broken")
        return EDITS[self.edit](body)

    def let_go(self, why: str) -> None:
        self.gone.append(why)

    def answered(self, trailers: Headers, body: bytes | None) -> None:
        self.endings.append(("answered", dict(trailers).get(b"grpc-status")))
        self.answer = body

    def lost(self, why: str, certain: bool) -> None:
        self.endings.append(("lost", certain))


@dataclass
class Call:
    """A stream as both ends know it."""

    number: int
    path: str
    request: bytes
    answer: bytes
    trailers: bool  # the request has some
    sent: int = 0
    request_ended: bool = False
    seen: bytearray = field(default_factory=bytearray)  # by the server
    seen_end: bool = False
    unacknowledged: int = 0
    answer_begun: bool = False
    answered: int = 0
    answer_ended: bool = False
    got: bytearray = field(default_factory=bytearray)  # by the client
    got_end: bool = False
    got_unacknowledged: int = 0
    reset: bool = False


@dataclass
class Rules:
    """How wild it gets."""

    calls: int = 8
    steps: int = 200
    largest: int = 30_000
    window: int = 65_535  # of the server, at the beginning
    held_share: float = 0.5
    resets: bool = True
    settings: bool = True
    early: bool = True
    trailers: bool = True
    long_headers: bool = True
    goes_away: bool = False


class Client(h2.connection.H2Connection):
    """For h2 a GOAWAY ends all; a gRPC client lets the calls end that the server took."""

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        event = h2.events.ConnectionTerminated()
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class World:
    """All of it; `run` is one life."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.random = random.Random(seed)
        self.rules = rules
        self.client = Client(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.troubles: list[tuple[str, Exception]] = []
        self.tunnel = Tunnel(self.interested, lambda part, problem: self.troubles.append((part, problem)))
        self.watchers: dict[int, Watcher] = {}
        self.calls: dict[int, Call] = {}
        self.wires = {name: bytearray() for name in ("client", "up", "server", "down")}
        self.last_taken = MOST_STREAM  # by the server
        self.last_allowed = MOST_STREAM  # as far as the client knows
        self.unsettled = {self.client: 1, self.server: 1}  # SETTINGS that the other side did not acknowledge yet
        for side, window in ((self.server, rules.window), (self.client, 65_535)):
            side.max_inbound_frame_size = self.random.choice((16_384, 20_000, 1 << 20))
            side.local_settings[SettingCodes.MAX_FRAME_SIZE] = side.max_inbound_frame_size
            side.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
            side.local_settings.acknowledge()
        self.server.initiate_connection()
        self.client.initiate_connection()

    def interested(self, headers: Headers) -> Watcher | None:
        named = dict(headers)
        assert named[b":method"] == b"POST"
        kind, edit, number = named[b":path"].decode().strip("/").split("/")
        if kind == "pass":
            return None
        return self.watchers.setdefault(int(number), Watcher(kind == "held", edit))

    def run(self) -> None:
        wild = [
            self.begin_call, self.send_some, self.send_some, self.send_some, self.acknowledge, self.answer, self.answer,
            self.ping, self.prioritize, self.client_acknowledges,
        ]  # fmt: skip
        wild += [self.deliver] * 12
        if self.rules.resets:
            wild.append(self.reset)
        if self.rules.settings:
            wild.append(self.change_settings)
        if self.rules.goes_away:
            wild.append(self.go_away)
        while self.turn():
            pass  # h2 does not expect anything from before its first SETTINGS were taken, where they are not the usual
        for _step in range(self.rules.steps):
            self.random.choice(wild)()
        self.come_to_an_end()

    # What may happen

    def begin_call(self) -> None:
        if (
            self.last_allowed < MOST_STREAM
            or len(self.calls) >= self.rules.calls
            or self.client.open_outbound_streams >= MOST_STREAMS
        ):
            return
        draw = self.random.random
        number = self.client.get_next_available_stream_id()
        kind = "held" if draw() < self.rules.held_share else self.random.choice(("seen", "pass"))
        edit = self.random.choice((*EDITS, "raise"))
        size = int(self.rules.largest * draw() ** 3)
        call = Call(
            number,
            f"/{kind}/{edit}/{number}",
            self.random.randbytes(size),
            self.random.randbytes(int(20_000 * draw() ** 3)),
            self.rules.trailers and draw() < 0.1,
        )
        headers = [(":method", "POST"), (":scheme", "http"), (":path", call.path), (":authority", "localhost")]
        headers += [(f"x-{self.random.randrange(5)}", "v" * self.random.randrange(60)) for _more in range(3)]
        priority = {"priority_weight": 7, "priority_depends_on": 0} if draw() < 0.2 else {}
        if self.rules.long_headers and not priority and draw() < 0.1:
            headers.append(("x-long", "".join(self.random.choices("abcdefghXYZ~{}", k=self.random.randrange(40_000)))))
        call.request_ended = size == 0 and draw() < 0.5
        self.client.send_headers(number, headers, end_stream=call.request_ended, **priority)
        self.calls[number] = call

    def send_some(self) -> None:
        open_calls = [call for call in self.calls.values() if not (call.request_ended or call.reset or call.got_end)]
        if open_calls:
            self.send(self.random.choice(open_calls), self.random.randrange(1, 20_000), self.random.random() < 0.3)

    def send(self, call: Call, most: int, padded: bool) -> bool:
        """Some of a request, as windows allow; whether something was sent."""
        padding = self.random.randrange(255) if padded else None
        room = self.client.local_flow_control_window(call.number) - (0 if padding is None else padding + 1)
        size = min(most, room, len(call.request) - call.sent, self.client.max_outbound_frame_size - 256)
        if size < 0 or (size == 0 and call.sent < len(call.request)):
            return False
        end = call.sent + size
        last = end == len(call.request)
        apart = last and (call.trailers or self.random.random() < 0.3)
        self.client.send_data(call.number, call.request[call.sent : end], last and not apart, pad_length=padding)
        call.sent = end
        if apart and call.trailers:
            self.client.send_headers(call.number, [("x-trailer", "t" * self.random.randrange(50))], end_stream=True)
        elif apart:
            self.client.end_stream(call.number)
        call.request_ended = last
        return True

    def acknowledge(self) -> None:
        waiting = [call for call in self.calls.values() if call.unacknowledged]
        if waiting:
            call = self.random.choice(waiting)
            amount = self.random.randint(1, call.unacknowledged)
            call.unacknowledged -= amount
            self.server.acknowledge_received_data(amount, call.number)

    def client_acknowledges(self) -> None:
        for call in self.calls.values():
            if call.got_unacknowledged:
                self.client.acknowledge_received_data(call.got_unacknowledged, call.number)
                call.got_unacknowledged = 0

    def answer(self) -> None:
        ready = [call for call in self.calls.values() if not (call.answer_ended or call.reset) and self.is_asked(call)]
        if ready:
            self.answer_some(self.random.choice(ready), self.random.randrange(1, 20_000))

    def is_asked(self, call: Call) -> bool:
        known = call.seen_end or (self.rules.early and self.random.random() < 0.02)
        return known and call.number in self.server.streams and call.number <= self.last_taken

    def answer_some(self, call: Call, most: int) -> bool:
        number = call.number
        if not call.answer_begun:
            call.answer_begun = True
            self.server.send_headers(number, [(":status", "200"), ("content-type", "application/grpc")])
        room = self.server.local_flow_control_window(number)
        size = min(most, room, len(call.answer) - call.answered, self.server.max_outbound_frame_size)
        if call.answered < len(call.answer) and size <= 0:
            return False
        if size > 0:
            self.server.send_data(number, call.answer[call.answered : call.answered + size])
            call.answered += size
        if call.answered == len(call.answer):
            call.answer_ended = True
            self.server.send_headers(number, [("grpc-status", "0"), ("x-n", str(number))], end_stream=True)
        return True

    def reset(self) -> None:
        if self.random.random() < 0.9:
            return
        by, there = self.random.choice(((self.client, self.client.streams), (self.server, self.server.streams)))
        chosen = [call for call in self.calls.values() if call.number in there and not there[call.number].closed]
        if chosen:
            call = self.random.choice(chosen)
            by.reset_stream(call.number, 8)
            call.reset = True

    def go_away(self) -> None:
        """The server takes no more calls than it has seen; maybe it warns first, as gRPC servers do."""
        if self.last_taken < MOST_STREAM or self.random.random() < 0.9:
            return
        self.wires["server"] += self.server.data_to_send()
        if self.random.random() < 0.5:
            self.wires["server"] += frame(GOAWAY, 0, 0, MOST_STREAM.to_bytes(4, "big") + bytes(4))
        self.last_taken = self.server.highest_inbound_stream_id
        self.wires["server"] += frame(GOAWAY, 0, 0, self.last_taken.to_bytes(4, "big") + bytes(4))

    def change_settings(self) -> None:
        who = self.random.choice((self.client, self.server))
        if self.unsettled[who] or self.random.random() < 0.8:
            return  # h2 takes an acknowledgement for that of the newest
        self.unsettled[who] += 1
        changes = {SettingCodes.INITIAL_WINDOW_SIZE: self.random.choice((0, 10, 1000, 65_535, 200_000))}
        if who.local_settings.header_table_size == 4096:  # hpack tells of two changes in the wrong order
            changes[SettingCodes.HEADER_TABLE_SIZE] = self.random.choice((0, 100, 4096, 10_000))
        who.update_settings(changes)

    def ping(self) -> None:
        self.random.choice((self.client, self.server)).ping(b"12345678")

    def prioritize(self) -> None:
        if self.calls:
            self.client.prioritize(self.random.choice(list(self.calls)), weight=9, depends_on=0, exclusive=False)

    # Bytes on their way

    def deliver(self) -> None:
        self.move(self.random.choice(list(self.wires)), self.random.choice((1, 5, 9, 100, 3_000, 100_000)))

    def move(self, wire: str, most: int) -> bool:
        """Some bytes of a wire arrive; whether there were any."""
        self.wires["client"] += self.client.data_to_send()
        self.wires["server"] += self.server.data_to_send()
        data = bytes(self.wires[wire][:most])
        del self.wires[wire][:most]
        if not data:
            return False
        if wire == "client":
            self.tunnel.from_client(data)
        elif wire == "server":
            ahead = self.tunnel.ahead(memoryview(data)) if self.random.random() < 0.8 else 0
            self.wires["down"] += data[:ahead]
            self.tunnel.from_server(data, ahead)
        elif wire == "up":
            self.server_receives(data)
        else:
            self.client_receives(data)
        self.take_out()
        return True

    def take_out(self) -> None:
        for lane, wire in ((self.tunnel.up, "up"), (self.tunnel.down, "down")):
            for piece in lane.out:
                self.wires[wire] += piece
            lane.out.clear()

    def server_receives(self, data: bytes) -> None:
        for event in self.server.receive_data(data):
            self.unsettled[self.server] -= isinstance(event, h2.events.SettingsAcknowledged)
            call = self.calls.get(getattr(event, "stream_id", None) or 0)
            if call is None:
                continue
            if isinstance(event, h2.events.RequestReceived):
                assert (b":path", call.path.encode()) in event.headers
            elif isinstance(event, h2.events.DataReceived):
                call.seen += event.data
                call.unacknowledged += event.flow_controlled_length
            elif isinstance(event, h2.events.StreamEnded):
                call.seen_end = True
            elif isinstance(event, h2.events.StreamReset):
                call.reset = True

    def client_receives(self, data: bytes) -> None:
        for event in self.client.receive_data(data):
            self.unsettled[self.client] -= isinstance(event, h2.events.SettingsAcknowledged)
            if isinstance(event, h2.events.ConnectionTerminated):
                self.last_allowed = event.last_stream_id or 0
                for refused in (one for one in self.calls.values() if one.number > self.last_allowed):
                    refused.reset = True
            call = self.calls.get(getattr(event, "stream_id", None) or 0)
            if call is None:
                continue
            if isinstance(event, h2.events.DataReceived):
                call.got += event.data
                call.got_unacknowledged += event.flow_controlled_length
            elif isinstance(event, h2.events.StreamEnded):
                call.got_end = True
            elif isinstance(event, h2.events.StreamReset):
                call.reset = True

    # The end

    def come_to_an_end(self) -> None:
        """Nobody holds back any more."""
        while self.turn():
            pass
        for _look in range(2 * self.rules.goes_away):  # a refused call that began late
            self.tunnel.tick()
            self.take_out()
        for side in (self.client, self.server):
            side.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
        while self.turn():
            pass

    def turn(self) -> bool:
        """Everything once; whether something happened."""
        happened = False
        for wire in self.wires:
            while self.move(wire, self.random.choice((1_000, 100_000))):
                happened = True
        self.client_acknowledges()
        for call in self.calls.values():
            if call.unacknowledged:
                self.server.acknowledge_received_data(call.unacknowledged, call.number)
                call.unacknowledged = 0
                happened = True
            if not call.reset and not call.request_ended and not call.got_end:
                happened |= self.send(call, 1 << 20, False)
            if not call.reset and call.seen_end and not call.answer_ended and call.number <= self.last_taken:
                happened |= self.answer_some(call, 1 << 20)
        return happened
