# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Where a kubelet is told its container runtime, and the same text with another one. Pure.

A flag beats every file: it stands in an environment file that the unit reads, or in the unit or its drop-ins. Then
comes `containerRuntimeEndpoint` of the configuration (1.27 and later), which drop-ins of --config-dir may set again.
kubeadm writes instance-config.yaml over the configuration when it upgrades a node (1.34 and later); before that it
looks at an annotation of the Node. Each of them that says anything is set; nothing else in a text is touched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FLAG = "container-runtime-endpoint"
KEY = "containerRuntimeEndpoint"
ANNOTATION = "kubeadm.alpha.kubernetes.io/cri-socket"
FIRST_WITH_KEY = (1, 27)
DEFAULT = "/run/containerd/containerd.sock"  # what kubelets take that are told nothing (1.27 and later)
_FLAG = re.compile(rf"""(--{FLAG}(?:=|\s+))(["']?)([^\s"']+)(\2)""")
_KEY = re.compile(rf"""^(["']?{KEY}["']?:[ \t]*)(["']?)([^\s"'#]*)\2([ \t]*(?:#.*)?)$""", re.MULTILINE)
_DOCUMENT_END = re.compile(r"^\.\.\.\s*$", re.MULTILINE)


class EndpointError(ValueError):
    """A text that can't be changed safely; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file that says, or may say, where the runtime is."""

    path: str
    kind: str  # "config": YAML or JSON with the key; "flags": anything with the flag in it
    must: bool = False  # has to say it, because nothing else would


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Tell whose text it is that can't be changed."""
    try:
        yield
    except EndpointError as problem:
        raise EndpointError(f"{path}: {problem}") from None


def said_in(path: str, text: str | None, kind: str) -> str:
    """The endpoint that a file names; what can't be read is told with the file's name."""
    with naming(path):
        return said(text or "", kind)


def plain(endpoint: str) -> str:
    """The path of a socket, however it is written: unix:///var/run/x and /run/x are one."""
    path = re.sub(r"^unix:/*", "/", endpoint.strip())
    return re.sub(r"^/var/run/", "/run/", os.path.normpath(path)) if path else ""


def url(path: str) -> str:
    """As kubelets of all versions take it."""
    return path if path.startswith("unix://") else f"unix://{path}"


def said(text: str, kind: str) -> str:
    """The endpoint that a text names; nothing where it names none."""
    if kind == "flags":
        found = _FLAG.findall(_without_comments(text))
        return found[-1][2] if found else ""
    if text.lstrip().startswith("{"):
        return str(_document(text).get(KEY) or "")
    match = _KEY.search(text)
    return match.group(3) if match else ""


def with_endpoint(text: str, kind: str, endpoint: str) -> str:
    """The text with that endpoint where it names one; a configuration that names none gets it."""
    if kind == "flags":
        return _each_line(text, lambda line: _FLAG.sub(lambda m: f"{m[1]}{m[2]}{endpoint}{m[4]}", line))
    if text.lstrip().startswith("{"):
        return json.dumps({**_document(text), KEY: endpoint}, indent=2) + "\n"
    if _KEY.search(text):
        return _KEY.sub(lambda m: f"{m[1]}{m[2]}{endpoint}{m[2]}{m[4]}", text)
    if re.search(rf"^\s+[\"']?{KEY}", text, re.MULTILINE):
        raise EndpointError(f"{KEY} is indented, so this is no configuration of a kubelet as kubeadm writes it")
    if len(re.findall(r"^---\s*$", text, re.MULTILINE)) > 1 or _DOCUMENT_END.search(text):
        raise EndpointError("it holds several documents")
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{KEY}: {endpoint}\n"


def without_endpoint(text: str, kind: str) -> str:
    """The configuration without the key; flags are never taken out, only changed."""
    if kind == "flags":
        return text
    if text.lstrip().startswith("{"):
        return json.dumps({key: value for key, value in _document(text).items() if key != KEY}, indent=2) + "\n"
    return re.sub(rf"^[\"']?{KEY}[\"']?:.*(?:\n|\Z)", "", text, flags=re.MULTILINE)


def places(
    read: Callable[[str], str | None],
    configs: Iterable[str],
    instance: str,
    flag_files: Iterable[str],
    version: tuple[int, ...],
) -> list[Place]:
    """The files that have to be set, by what stands in them. `read` reads one; None if there is none."""
    found = [Place(path, "flags") for path in flag_files if said_in(path, read(path), "flags")]
    has_key = version >= FIRST_WITH_KEY
    named = [path for path in configs if read(path) is not None]
    if has_key:
        found += [Place(path, "config", True) for path in named[:1]]
        found += [Place(path, "config") for path in named[1:] if said_in(path, read(path), "config")]
        if read(instance) is not None:
            found.append(Place(instance, "config", True))
    if not found:
        known = "no file says where its runtime is"
        raise EndpointError(f"{known}, and kubelets before 1.27 take it from the flag --{FLAG} only; set that first")
    return found


def switched(text: str, place: Place, endpoint: str) -> str:
    """The text of a place with the new endpoint."""
    with naming(place.path):
        return with_endpoint(text, place.kind, endpoint) if said(text, place.kind) or place.must else text


def taken_back(text: str, place: Place, ours: str, original: str | None, otherwise: str) -> str:
    """The text of a place with the former endpoint instead of ours: what its original said, or nothing if that said
    nothing, or `otherwise` where the original is not known (the file was written anew with our endpoint in it)."""
    with naming(place.path):
        if plain(said(text, place.kind)) != plain(ours):
            return text
        former = otherwise if original is None else said(original, place.kind)
        if plain(former) == plain(ours):
            former = otherwise
        return with_endpoint(text, place.kind, former) if former else without_endpoint(text, place.kind)


def _document(text: str) -> dict[str, object]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise EndpointError(f"it is no JSON: {problem}") from None
    return dict(tree)


def _each_line(text: str, change: Callable[[str], str]) -> str:
    """Change the lines that are no comments."""
    lines = text.splitlines(keepends=True)
    return "".join(line if _is_comment(line) else change(line) for line in lines)


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not _is_comment(line))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("#", ";"))
