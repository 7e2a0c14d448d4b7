# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the kubelet's device manager: its Registration service and its side of each plugin, over real gRPC.

It does what the kubelet 1.36 does as far as a plugin can see: clears the directory when it starts (all but its
checkpoint), dials the plugin before it answers a registration, then watches the list. Its misbehaviour can be switched
on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from colocation.device_plugin.kubelet_state import CHECKPOINT
from colocation.device_plugin.protocol import MESSAGES

SERVICE = "/v1beta1.DevicePlugin/"


@dataclass
class Registered:
    """A plugin that registered, and what came from it."""

    resource: str
    endpoint: str
    channel: grpc.Channel
    lists: list[list[tuple[str, str]]] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)  # when each list did
    options: tuple[bool, bool] = (False, False)  # GetPreferredAllocation, PreStartContainer
    ended: str = ""

    def call(self, method: str, request: bytes, timeout: float = 5) -> bytes:
        call = self.channel.unary_unary(SERVICE + method, request_serializer=bytes, response_deserializer=bytes)
        return call(request, timeout=timeout)

    def allocate(self, *containers: list[str]) -> Any:
        parts = [{"devices_ids": ids} for ids in containers]
        request = MESSAGES["AllocateRequest"](container_requests=parts)
        return MESSAGES["AllocateResponse"].FromString(self.call("Allocate", request.SerializeToString()))

    def prefer(self, available: list[str], must: list[str], size: int) -> list[str]:
        """What the plugin would take for one container."""
        question = {"available_deviceIDs": available, "must_include_deviceIDs": must, "allocation_size": size}
        request = MESSAGES["PreferredAllocationRequest"](container_requests=[question])
        answer = self.call("GetPreferredAllocation", request.SerializeToString())
        (chosen,) = MESSAGES["PreferredAllocationResponse"].FromString(answer).container_responses
        return list(chosen.deviceIDs)


class KubeletDouble:
    """Can be started and stopped any number of times; `plugins` are those of this start."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plugins: list[Registered] = []
        self.refusal = ""  # what registrations are refused with
        self.watches = True  # whether it watches lists
        self._server: grpc.Server | None = None

    def start(self) -> None:
        for entry in os.scandir(self.directory):
            if not entry.is_dir(follow_symlinks=False) and entry.name != CHECKPOINT:
                os.unlink(entry.path)
        self.plugins = []
        self._server = grpc.server(ThreadPoolExecutor(4))
        methods = {"Register": grpc.unary_unary_rpc_method_handler(self._register)}
        handlers = grpc.method_handlers_generic_handler("v1beta1.Registration", methods)
        self._server.add_generic_rpc_handlers((handlers,))
        self._server.add_insecure_port(f"unix:{self.directory}/kubelet.sock")
        self._server.start()

    def stop(self) -> None:
        """As a killed kubelet: connections end, files stay."""
        for plugin in self.plugins:
            plugin.channel.close()
        if self._server is not None:
            self._server.stop(None).wait(5)
            self._server = None

    def watched(self, resource: str) -> list[Registered]:
        """The registrations of a resource whose list came and goes on."""
        return [p for p in self.plugins if p.resource == resource and p.lists and not p.ended]

    def _register(self, content: bytes, context: grpc.ServicerContext) -> bytes:
        if self.refusal:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        request = MESSAGES["RegisterRequest"].FromString(content)
        assert request.version == "v1beta1"
        assert "/" not in request.endpoint
        plugin = self.dial(request.resource_name, request.endpoint)
        options = request.options
        plugin.options = (options.get_preferred_allocation_available, options.pre_start_required)
        return b""

    def dial(self, resource: str, endpoint: str, whole: bool = True) -> Registered:
        """Connect to a plugin and watch its list, which is kept unless only its arrival is of interest."""
        channel = grpc.insecure_channel(
            f"unix:{self.directory / endpoint}",
            options=[("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)],
        )
        plugin = Registered(resource, endpoint, channel)
        grpc.channel_ready_future(channel).result(timeout=5)  # a plugin that does not serve yet is an error
        self.plugins.append(plugin)
        if self.watches:
            threading.Thread(target=_watch, args=(plugin, whole), daemon=True).start()
        return plugin


def _watch(plugin: Registered, whole: bool) -> None:
    call = plugin.channel.unary_stream(
        SERVICE + "ListAndWatch",
        request_serializer=bytes,
        response_deserializer=MESSAGES["ListAndWatchResponse"].FromString,
    )
    try:
        answers: Iterator[Any] = call(b"")
        for answer in answers:
            plugin.arrived.append(time.perf_counter())
            plugin.lists.append([(device.ID, device.health) for device in answer.devices] if whole else [])
        plugin.ended = "the plugin ended it"
    except (grpc.RpcError, ValueError) as problem:
        plugin.ended = repr(problem)
