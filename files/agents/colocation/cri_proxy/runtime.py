# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The proxy's own calls to the container runtime: what runs, and other CPUs for it.

One call, one connection, on the relay's own frames: we make a handful of calls in ten seconds, and grpcio would cost
this process 20 MiB for them. All credit is given at once, so no window has to be kept on our side; our requests are
smaller than the first window of any server.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from colocation.cri_proxy import frames
from colocation.cri_proxy.calls import Pod, Resources
from colocation.cri_proxy.hpack import HeaderReader
from colocation.cri_proxy.protocol import MESSAGES, RUNTIME

MOST_ANSWER = 256 << 20
CREATED, RUNNING = 0, 1  # states of a container
NOT_FOUND = "5"
_STREAM = 1
_OPENING = (
    frames.PREFACE
    + frames.frame(
        frames.SETTINGS, 0, 0, b"\x00\x01\x00\x00\x00\x00" + b"\x00\x04" + frames.MOST_WINDOW.to_bytes(4, "big")
    )
    + frames.window_update(0, frames.MOST_WINDOW - frames.DEFAULT_WINDOW)
)


class RuntimeFailed(Exception):
    """A call failed; the text says how."""

    def __init__(self, text: str, status: str = "") -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Container:
    """A container as a list shows it."""

    id: str
    sandbox: str
    name: str
    attempt: int
    alive: bool  # created or running
    annotations: Mapping[str, str]


class Runtime:
    """The runtime behind a socket."""

    def __init__(self, path: str, timeout: float = 10) -> None:
        self.path = path
        self.timeout = timeout

    def version(self) -> str:
        """Name and version of the runtime."""
        answer = self._ask("Version")
        return f"{answer.runtime_name} {answer.runtime_version}"

    def sandboxes(self) -> dict[str, Pod]:
        """The pods by the ids of their sandboxes; the runtime's list does not say where their cgroups are."""
        return {
            item.id: Pod(
                item.metadata.uid,
                item.metadata.namespace,
                item.metadata.name,
                dict(item.labels),
                dict(item.annotations),
            )
            for item in self._ask("ListPodSandbox").items
        }

    def containers(self) -> list[Container]:
        """All that it knows, ended ones too."""
        return [
            Container(
                item.id,
                item.pod_sandbox_id,
                item.metadata.name,
                item.metadata.attempt,
                item.state in (CREATED, RUNNING),
                dict(item.annotations),
            )
            for item in self._ask("ListContainers").containers
        ]

    def resources(self, container: str) -> Resources | None:
        """What a container was given; None where the runtime does not tell (containerd before 1.7)."""
        status = self._ask("ContainerStatus", container_id=container).status
        if not status.HasField("resources") or not status.resources.HasField("linux"):
            return None
        found = status.resources.linux
        return Resources(
            found.cpu_period,
            found.cpu_quota,
            found.cpu_shares,
            found.memory_limit_in_bytes,
            found.cpuset_cpus,
            found.cpuset_mems,
            found.oom_score_adj,
        )

    def set_cpus(self, container: str, cpus: str, mems: str = "") -> None:
        """Give a container other CPUs, and memory of other NUMA nodes; all else stays, as unset fields do."""
        linux: dict[str, str] = {"cpuset_cpus": cpus, **({"cpuset_mems": mems} if mems else {})}
        self._ask("UpdateContainerResources", container_id=container, linux=linux)

    def _ask(self, call: str, **fields: Any) -> Any:
        request = MESSAGES[f"{call}Request"](**fields).SerializeToString()
        content = unary(self.path, f"/{RUNTIME}/{call}", request, self.timeout)
        answer = MESSAGES.get(f"{call}Response")
        return answer.FromString(content) if answer is not None else None


def unary(path: str, method: str, request: bytes, timeout: float) -> bytes:
    """The answer's message of one gRPC call without a stream."""
    end = time.monotonic() + timeout
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
            wire.settimeout(timeout)
            wire.connect(path)
            wire.sendall(_OPENING + _request(method, request, timeout))
            return _Answer(wire).read(_frames(wire, end))
    except TimeoutError:
        raise RuntimeFailed(f"{path} did not answer {method} within {timeout:g} s") from None
    except OSError as problem:
        raise RuntimeFailed(f"{path}: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise RuntimeFailed(f"{path} speaks no gRPC: {problem}") from None


def _request(method: str, request: bytes, timeout: float) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        "grpc-timeout": f"{max(1, int(timeout * 1000))}m",
    }
    block = b"".join(b"\0" + _short(name) + _short(value) for name, value in headers.items())
    message = b"\0" + len(request).to_bytes(4, "big") + request
    head = frames.frame(frames.HEADERS, frames.END_HEADERS, _STREAM, block)
    return head + frames.frame(frames.DATA, frames.END_STREAM, _STREAM, message)


def _short(text: str) -> bytes:
    content = text.encode("ascii")
    if len(content) > 126:
        raise ValueError("a header that is longer than this client writes")
    return bytes([len(content)]) + content


def _frames(wire: socket.socket, end: float) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame until the server closes."""
    kept = bytearray()
    while True:
        while len(kept) >= frames.HEAD:
            high, low, kind, flags, stream = frames.HEAD_FORMAT.unpack_from(kept)
            size = high << 8 | low
            if size > frames.DEFAULT_MAX_FRAME:
                raise ValueError(f"a frame of {size} bytes")
            if len(kept) < frames.HEAD + size:
                break
            payload = bytes(kept[frames.HEAD : frames.HEAD + size])
            del kept[: frames.HEAD + size]
            yield kind, flags, stream & frames.MOST_WINDOW, payload
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        wire.settimeout(left)
        chunk = wire.recv(1 << 18)
        if not chunk:
            return
        kept += chunk


class _Answer:
    """What comes of our one stream."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._reader = HeaderReader()
        self._headers: dict[bytes, bytes] = {}
        self._block = b""
        self._body = bytearray()
        self._last = False  # the stream ends with the header block that is being read

    def read(self, received: Iterator[tuple[int, int, int, bytes]]) -> bytes:
        """The message, once the stream has ended well."""
        for kind, flags, stream, payload in received:
            if kind == frames.SETTINGS and not flags & frames.ACK:
                self._wire.sendall(frames.frame(frames.SETTINGS, frames.ACK, 0))
            elif kind == frames.PING and not flags & frames.ACK:
                self._wire.sendall(frames.frame(frames.PING, frames.ACK, 0, payload))
            elif kind == frames.GOAWAY and int.from_bytes(payload[:4], "big") < _STREAM:
                raise RuntimeFailed("the runtime closes the connection")
            elif stream == _STREAM and self._ended(kind, flags, payload):
                return self._message()
        raise RuntimeFailed("the runtime closed the connection before it answered")

    def _ended(self, kind: int, flags: int, payload: bytes) -> bool:
        """Take a frame of our stream; whether it was the last."""
        if kind == frames.RST_STREAM:
            raise RuntimeFailed(f"the runtime broke the call off, HTTP/2 error {int.from_bytes(payload, 'big')}")
        if kind == frames.DATA:
            self._body += frames.content_of(payload, flags)
            if len(self._body) > MOST_ANSWER:
                raise RuntimeFailed(f"the runtime's answer is larger than {MOST_ANSWER} bytes")
            return bool(flags & frames.END_STREAM)
        if kind in (frames.HEADERS, frames.CONTINUATION):
            if kind == frames.HEADERS:
                self._last = bool(flags & frames.END_STREAM)
                payload = frames.content_of(payload, flags, 5 if flags & frames.HAS_PRIORITY else 0)
            self._block += payload
            if flags & frames.END_HEADERS:
                self._headers.update(self._reader.read(self._block))
                self._block = b""
                return self._last
        return False

    def _message(self) -> bytes:
        status = self._headers.get(b"grpc-status", b"none").decode()
        if status != "0":
            said = unquote(self._headers.get(b"grpc-message", b"").decode("latin-1"))
            raise RuntimeFailed(f"the runtime answers with status {status}{f': {said}' if said else ''}", status)
        body = bytes(self._body)
        if len(body) < 5 or body[0] != 0 or int.from_bytes(body[1:5], "big") != len(body) - 5:
            raise ValueError("an answer that is not one plain message")
        return body[5:]
