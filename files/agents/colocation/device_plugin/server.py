# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One incarnation of a plugin on its socket: the gRPC services that the kubelet calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from colocation.common.journal import Log
from colocation.device_plugin import protocol
from colocation.device_plugin.devices import NoSuchDevice, Source

THREADS = 8  # one for each kubelet that watches, the others for allocations
DIAL_SECONDS = 5.0
REGISTER_SECONDS = 15.0  # the kubelet dials back before it answers, and takes up to 10 s for that
STOP_SECONDS = 3.0
OPTIONS = (("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0))
log = Log("device_plugin")


class Offer:
    """The encoded list of devices, and waiting for a new one."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._number = 0
        self._changed = threading.Condition()
        self._closed = False
        self._streams = 0

    @property
    def streams(self) -> int:
        """How many watch."""
        with self._changed:
            return self._streams

    def publish(self, content: bytes) -> bool:
        """Send a list to all who watch, if it is not the one they have."""
        with self._changed:
            if content == self._content:
                return False
            self._content = content
            self._number += 1
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """End all watches."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Let watches look whether their caller has gone."""
        with self._changed:
            self._changed.notify_all()

    def watch(self, context: Any) -> Iterator[bytes]:
        """The list now, and each new one until either side ends it."""
        if not context.add_callback(self.wake):
            return  # over before it began
        with self._changed:
            self._streams += 1
        sent = -1
        try:
            while (found := self._next(sent, context)) is not None:
                content, sent = found
                yield content
        finally:
            with self._changed:
                self._streams -= 1

    def _next(self, sent: int, context: Any) -> tuple[bytes, int] | None:
        """The list that follows the one with this number, once there is one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._number != sent or not context.is_active())
            return None if self._closed or not context.is_active() else (self._content, self._number)


class PluginServer:
    """Serves a source on a socket until it is stopped."""

    def __init__(self, source: Source, path: str, content: bytes) -> None:
        self.source = source
        self.path = path
        self.offer = Offer(content)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plugin")
        self._server = grpc.server(self._threads, options=OPTIONS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        """End streams and calls, then the server; the socket's file goes with it."""
        self.offer.close()
        self._server.stop(grace=0.5).wait(STOP_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(_options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._watch),
            "Allocate": grpc.unary_unary_rpc_method_handler(self._allocate),
        }
        return grpc.method_handlers_generic_handler(protocol.PLUGIN, methods)

    def _watch(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        log.info("the kubelet watches", resource=self.source.resource)
        yield from self.offer.watch(context)

    def _allocate(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            wanted = protocol.decode_allocation(request)
            grants = [self.source.grant(ids) for ids in wanted]
        except NoSuchDevice as problem:
            log.warning("allocation refused", resource=self.source.resource, why=problem)
            context.abort(grpc.StatusCode.NOT_FOUND, str(problem))
        log.info("allocated", resource=self.source.resource, devices=",".join(id for ids in wanted for id in ids))
        return protocol.encode_grants(grants)


def _options(_request: bytes, _context: grpc.ServicerContext) -> bytes:
    return protocol.encode_options()


def dial(path: str) -> None:
    """Call our own socket as the kubelet will; an error if nobody serves there."""
    _call(path, f"/{protocol.PLUGIN}/GetDevicePluginOptions", b"", DIAL_SECONDS)


def register(kubelet_socket: str, endpoint: str, resource: str) -> None:
    """Tell the kubelet where the plugin listens."""
    _call(kubelet_socket, protocol.REGISTER, protocol.encode_registration(endpoint, resource), REGISTER_SECONDS)


def _call(path: str, method: str, request: bytes, timeout: float) -> bytes:
    options = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        return call(request, timeout=timeout, wait_for_ready=False)
