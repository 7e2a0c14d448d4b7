# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The relays that the benchmark cri-proxy compares, each a process of its own: `_cri_relays.py KIND RUNTIME SOCKET`.

`ours` is the relay with a policy that edits every container, and all that the agent's frame loads. `plain` is the relay
without a policy. `aio` is what anybody would write with grpcio: a generic handler that calls on.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any


def relay(runtime: str, path: str, placed: bool) -> None:
    from colocation.common import command_line, service
    from colocation.common.metrics import Registry
    from colocation.cri_proxy.calls import Creation, Edit, Event, Resize
    from colocation.cri_proxy.intercept import Intercept
    from colocation.cri_proxy.listener import Listener
    from colocation.cri_proxy.relay import Relay
    from colocation.cri_proxy.trouble import Trouble

    assert command_line and service  # loaded for their memory

    class Fixed:
        def create(self, _creation: Creation) -> Edit:
            return Edit(cpuset_cpus="0-7", cpuset_mems="0", memory_limit=1 << 30)

        def resize(self, _resize: Resize) -> Edit:
            return Edit(cpuset_cpus="0-7")

        def observe(self, _event: Event) -> None:
            pass

    registry = Registry()
    intercept = Intercept(registry, Trouble(registry), Fixed() if placed else None)
    Relay(Listener(path), runtime, intercept, registry).start()
    print("ready", flush=True)
    signal.pause()


async def aio(runtime: str, path: str) -> None:
    import grpc
    import grpc.aio

    sizes = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
    channel = grpc.aio.insecure_channel(f"unix:{runtime}", options=sizes)

    class Everything(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            call = channel.stream_stream(details.method)

            async def on(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
                async for answer in call(requests, timeout=context.time_remaining()):
                    yield answer

            return grpc.stream_stream_rpc_method_handler(on)

    server = grpc.aio.server(options=sizes)
    server.add_generic_rpc_handlers((Everything(),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    kind, *where = sys.argv[1:]
    if kind == "aio":
        asyncio.run(aio(*where))
    else:
        relay(*where, placed=kind == "ours")
