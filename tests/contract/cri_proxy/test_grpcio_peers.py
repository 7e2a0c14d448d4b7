# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The relay between a client and a server of grpcio, whose HTTP/2 is another one than Go's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from ansible_collections.colocation.kubernetes.tests.contract.cri_proxy.conftest import EDIT
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import (
    NEWER,
    PolicyDouble,
    creation,
    update,
)
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.relay_site import Site, until
from colocation.cri_proxy.protocol import MESSAGES, RUNTIME

SIZES = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
ANY = "any.v9.Service"
SECONDS = 60


def create(request: bytes, context: grpc.ServicerContext) -> bytes:
    """The request comes back as the container's id, for the test to see."""
    context.send_initial_metadata((("x-head", "er"),))
    context.set_trailing_metadata((("x-trail-bin", b"\x00\xff"),))
    return bytes(MESSAGES["CreateContainerResponse"](container_id=request.hex()).SerializeToString())


def resize(request: bytes, _context: grpc.ServicerContext) -> bytes:
    return request


def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "keine Kapazität %20 \n")


def echo(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
    yield from requests


def count(requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
    known = dict(context.invocation_metadata())
    return f"{sum(map(len, requests))} {known['x-who']} {context.time_remaining() < SECONDS + 1}".encode()


def many(request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
    return (request for _turn in range(1000))


@pytest.fixture
def channel(placed: Site) -> Iterator[grpc.Channel]:
    runtime = {
        "CreateContainer": grpc.unary_unary_rpc_method_handler(create),
        "UpdateContainerResources": grpc.unary_unary_rpc_method_handler(resize),
        "StopContainer": grpc.unary_unary_rpc_method_handler(refuse),
    }
    others = {
        "Echo": grpc.stream_stream_rpc_method_handler(echo),
        "Count": grpc.stream_unary_rpc_method_handler(count),
        "Many": grpc.unary_stream_rpc_method_handler(many),
    }
    server = grpc.server(ThreadPoolExecutor(8), options=(*SIZES, ("grpc.so_reuseport", 0)))
    for service, methods in ((RUNTIME, runtime), (ANY, others)):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    server.add_insecure_port(f"unix:{placed.runtime}")
    server.start()
    with grpc.insecure_channel(f"unix:{placed.path}", options=SIZES) as made:
        yield made
    server.stop(None).wait(5)


def test_creations_are_edited_and_metadata_passes(channel: grpc.Channel, policy: PolicyDouble) -> None:
    ask = channel.unary_unary(f"/{RUNTIME}/CreateContainer")
    for filler in (0, 20_000, 70_000, 900_000):
        sent = creation(command=["c" * filler])
        answer, ended = ask.with_call(sent.SerializeToString(), timeout=SECONDS)
        got = MESSAGES["CreateContainerResponse"].FromString(answer).container_id
        resources = sent.config.linux.resources
        resources.cpuset_cpus, resources.cpuset_mems = EDIT.cpuset_cpus, EDIT.cpuset_mems
        resources.memory_limit_in_bytes = EDIT.memory_limit
        assert NEWER["CreateContainerRequest"].FromString(bytes.fromhex(got)) == sent
        assert ("x-head", "er") in ended.initial_metadata()
        assert ("x-trail-bin", b"\x00\xff") in ended.trailing_metadata()
    assert len(policy.creations) == 4


def test_a_resize_is_edited(channel: grpc.Channel) -> None:
    got = channel.unary_unary(f"/{RUNTIME}/UpdateContainerResources")(update().SerializeToString(), timeout=SECONDS)
    assert NEWER["UpdateContainerResourcesRequest"].FromString(got).linux.cpuset_cpus == EDIT.cpuset_cpus


def test_a_refusal_comes_as_it_is(channel: grpc.Channel, policy: PolicyDouble) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/{RUNTIME}/StopContainer")(b"", timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert caught.value.details() == "keine Kapazität %20 \n"
    assert not policy.events


def test_streams_of_every_kind_pass(channel: grpc.Channel) -> None:
    pieces = [bytes([number]) * 50_000 for number in range(200)]
    assert list(channel.stream_stream(f"/{ANY}/Echo")(iter(pieces), timeout=SECONDS)) == pieces
    counted = channel.stream_unary(f"/{ANY}/Count")(iter(pieces), timeout=SECONDS, metadata=(("x-who", "me"),))
    assert counted == b"10000000 me True"
    assert list(channel.unary_stream(f"/{ANY}/Many")(b"m" * 100, timeout=SECONDS)) == [b"m" * 100] * 1000


def test_64_mebibytes_pass(channel: grpc.Channel) -> None:
    large = bytes(range(256)) * (1 << 18)
    assert list(channel.stream_stream(f"/{ANY}/Echo")(iter([large]), timeout=SECONDS)) == [large]


def test_a_cancelled_stream_ends_on_both_sides(channel: grpc.Channel, placed: Site) -> None:
    never = threading.Event()
    requests = iter(lambda: None if never.wait(SECONDS) else b"", None)
    running = channel.stream_stream(f"/{ANY}/Echo")(itertools.chain([b"a"], requests), timeout=SECONDS)
    assert next(running) == b"a"
    assert placed.relay.load().calls == 1
    running.cancel()
    until("the call is over", lambda: not placed.relay.load().calls)
    never.set()
    with pytest.raises(grpc.RpcError) as caught:
        next(running)
    assert caught.value.code() is grpc.StatusCode.CANCELLED
