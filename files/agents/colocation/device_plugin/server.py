# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""One incarnation of a plugin on its socket: the gRPC services that the kubelet calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc

from colocation.common.journal import Log
from colocation.device_plugin import protocol
from colocation.device_plugin.devices import NoSuchDevice, Options, Refused, Source

THREADS = 8  # one for each kubelet that watches, the others for allocations
DIAL_SECONDS = 5.0
REGISTER_SECONDS = 15.0  # the kubelet dials back before it answers, and takes up to 10 s for that
END_SECONDS = 2.0  # for calls under way; a busy node needs more than a half for the end of a stream
STOP_SECONDS = 3.0
OPTIONS = (("grpc.so_reuseport", 0), ("grpc.enable_http_proxy", 0))
MOST_REQUEST = 64 << 20  # the kubelet names every free device when it asks which are preferred
Granted = Callable[[Sequence[str]], None]
T = TypeVar("T")
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
    """Serves a source on a socket until it is stopped. `granted` is told what containers get, before they get it."""

    def __init__(self, source: Source, path: str, content: bytes, granted: Granted) -> None:
        self.source = source
        self.path = path
        self.offer = Offer(content)
        self._granted = granted
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plugin")
        options = (*OPTIONS, ("grpc.max_receive_message_length", MOST_REQUEST))
        self._server = grpc.server(self._threads, options=options)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        """End streams and calls, then the server; the socket's file goes with it."""
        self.offer.close()
        self._server.stop(grace=END_SECONDS).wait(STOP_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "GetDevicePluginOptions": unary(lambda _request, _context: protocol.encode_options(self.source.options)),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._watch),
            "Allocate": unary(self._allocate),
            "GetPreferredAllocation": unary(self._prefer),
            "PreStartContainer": unary(self._start),
        }
        return grpc.method_handlers_generic_handler(protocol.PLUGIN, methods)

    def _watch(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        log.info("the kubelet watches", resource=self.source.resource)
        yield from self.offer.watch(context)

    def _allocate(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        wanted = protocol.decode_allocation(request)
        grants = self._ask("allocation", context, lambda: [self.source.grant(ids) for ids in wanted])
        given = [id for ids in wanted for id in ids]
        self._granted(given)
        log.info("allocated", resource=self.source.resource, devices=_shown(given))
        return protocol.encode_grants(grants)

    def _prefer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        asked = protocol.decode_preferences(request)
        prefer = self.source.prefer
        chosen = self._ask("preference", context, lambda: [prefer(one.available, one.must, one.size) for one in asked])
        return protocol.encode_preferences(chosen)

    def _start(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        ids = protocol.decode_start(request)
        self._ask("start", context, lambda: self.source.start(ids))
        return b""

    def _ask(self, what: str, context: grpc.ServicerContext, question: Callable[[], T]) -> T:
        """The source's answer; its refusal is the kubelet's error, and is in the log."""
        try:
            return question()
        except NoSuchDevice as problem:
            code, why = grpc.StatusCode.NOT_FOUND, str(problem)
        except Refused as problem:
            code, why = grpc.StatusCode.FAILED_PRECONDITION, str(problem)
        except NotImplementedError:
            code, why = grpc.StatusCode.UNIMPLEMENTED, f"{self.source.resource} answers no {what}"
        except Exception as problem:
            code, why = grpc.StatusCode.INTERNAL, str(problem) or type(problem).__name__
        log.warning(f"{what} refused", resource=self.source.resource, why=why)
        raise context.abort(code, why)


def _shown(ids: Sequence[str], most: int = 20) -> str:
    """IDs in one line of the log."""
    return ",".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def dial(path: str) -> None:
    """Call our own socket as the kubelet will; an error if nobody serves there."""
    _call(path, f"/{protocol.PLUGIN}/GetDevicePluginOptions", b"", DIAL_SECONDS)


def register(kubelet_socket: str, endpoint: str, resource: str, options: Options) -> None:
    """Tell the kubelet where the plugin listens."""
    request = protocol.encode_registration(endpoint, resource, options)
    _call(kubelet_socket, protocol.REGISTER, request, REGISTER_SECONDS)


def _call(path: str, method: str, request: bytes, timeout: float) -> bytes:
    options = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        return call(request, timeout=timeout, wait_for_ready=False)
