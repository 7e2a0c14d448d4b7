# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Sends a node's kubelet to its runtime by another socket, and back: so that it never starts without one.

What is to be served at the socket is proven first, by real calls. Then the files are changed, through the ledger, the
kubelet is restarted, and it has to be there: up, told so by its own command line and configuration, and its node Ready.
If it is not, all is put back and it is restarted once more. A run that was killed is finished by the next: from before
the first file until the node is Ready, a note says that the kubelet has not been seen well with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import FileState, put_file, read, remove
from ansible_collections.colocation.kubernetes.plugins.module_utils._hazard import is_systemd_file
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_endpoint import (
    DEFAULT,
    FLAG,
    KEY,
    EndpointError,
    Place,
    places,
    plain,
    said_in,
    switched,
    taken_back,
    url,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_unit import UNIT, UNIT_PLACES, drop_ins_of
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Entry, Ledger
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import (
    CONFIG,
    FLAG_FILES,
    KubeletProcess,
    drop_ins,
    find_binary,
    find_process,
    parse_flags,
    parse_version,
    read_flags,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError

INSTANCE = "/var/lib/kubelet/instance-config.yaml"
PAUSE = 0.5
RESTART_NOTE = "kubelet-restart"


Text = tuple[Place, str, str]  # a place, what stands there, what should


class SwitchError(Exception):
    """The kubelet was not sent there; the text says why and what stands now."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Where the kubelet should find its runtime."""

    proxy: str  # the socket that is put between
    runtime: str  # the runtime's own
    proxied: bool
    timeout: float = 120

    @property
    def endpoint(self) -> str:
        return url(self.proxy if self.proxied else self.runtime)


@dataclass(frozen=True, slots=True)
class World:
    """What is asked beside files and systemd."""

    containers: Callable[[str], set[str]]  # ids of those that run, by a runtime at a socket; OSError where none answers
    ready: Callable[[float], Readiness]  # of the node, by a kubelet that spoke since then
    annotate: Callable[[str, bool], bool]  # sets kubeadm's annotation where the Node has it; whether that changes it
    configz: Callable[[], str]  # the endpoint that the kubelet itself tells; nothing where that may not be asked
    time: Callable[[], float]  # seconds since 1970


@dataclass(slots=True)
class Outcome:
    """What was done, or in check mode would be."""

    changed: bool = False
    restarted: bool = False
    places: list[str] = field(default_factory=list)
    asked: bool = False  # /configz was read
    lost: list[str] = field(default_factory=list)  # containers that ran before and do not any more
    diff: list[dict[str, str]] = field(default_factory=list)
    downtime: float = 0.0


class Switch:
    """One kubelet."""

    def __init__(self, wish: Wish, ledger: Ledger, systemd: Systemd, world: World, root: str = "/") -> None:
        self.wish = wish
        self.ledger = ledger
        self.systemd = systemd
        self.world = world
        self.root = root
        self.outcome = Outcome()

    def go(self) -> Outcome:
        """Bring the kubelet there. SwitchError: it could not be, and is where it was before if that was possible."""
        process = find_process(self.root, "kubelet")
        try:
            wanted = self._wanted(process) if self.wish.proxied else self._unwanted(process)
        except EndpointError as problem:
            raise SwitchError(f"{problem}. Nothing was changed.") from problem
        texts = {place.path: after for place, before, after in wanted if before != after}
        diff = [_diff(place.path, before, after) for place, before, after in wanted if before != after]
        due = self._is_due(process, [place for place, _before, _after in wanted])
        self.outcome.places = [place.path for place, _before, _after in wanted]
        self.outcome.changed = bool(texts) or due
        self.outcome.restarted = self.outcome.changed
        self.outcome.diff = diff
        if self.ledger.check_mode:
            self.outcome.changed |= self._annotate(True)
            return self.outcome
        if self.outcome.changed:
            self._switch(texts, process)
        self.outcome.changed |= self._annotate(False)
        if not self.wish.proxied:
            self._forget()
        return self.outcome

    # What stands

    def _wanted(self, process: KubeletProcess | None) -> list[Text]:
        """The places that have to name the proxy."""
        found = places(self._read, self._configs(process), INSTANCE, self._flag_files(), self._version(process))
        self._see_whose(found)
        texts = [(place, self._read(place.path) or "") for place in found]
        return [(place, text, switched(text, place, self.wish.endpoint)) for place, text in texts]

    def _unwanted(self, process: KubeletProcess | None) -> list[Text]:
        """The places that name the proxy, or did; whatever else a kubelet is told is its own affair."""
        config, *more = self._configs(process)
        ours = {entry.name for entry in self._entries()}
        found = [Place(path, "flags") for path in self._flag_files()]
        found += [Place(path, "config", True) for path in (config, *more, INSTANCE)]
        texts = [(place, self._read(place.path) or "") for place in found]
        return [
            (place, text, taken_back(text, place, self.wish.proxy, self._original(place.path), self.wish.endpoint))
            for place, text in texts
            if plain(said_in(place.path, text, place.kind)) == plain(self.wish.proxy) or self._real(place.path) in ours
        ]

    def _configs(self, process: KubeletProcess | None) -> list[str]:
        flags = read_flags(self.root, process)
        return [flags.get("config", CONFIG), *drop_ins(self.root, flags.get("config-dir", ""))]

    def _entries(self) -> list[Entry]:
        return [entry for entry in self.ledger.entries() if entry.owner == self.ledger.owner]

    def _real(self, path: str) -> str:
        return os.path.realpath(under(self.root, path))

    def _see_whose(self, found: list[Place]) -> None:
        """Refuse a kubelet whose runtime is a third one: the proxy stands before another."""
        known = {plain(self.wish.proxy), plain(self.wish.runtime), ""}
        for place in found:
            other = self._said(place.path, place.kind)
            if plain(other) not in known:
                raise SwitchError(
                    f"{place.path} sends the kubelet to {other}, and the proxy stands before {self.wish.runtime}: set "
                    f"the runtime's socket to that one. Nothing was changed."
                )
        silent = not any(self._said(place.path, place.kind) for place in found)
        if silent and plain(self.wish.runtime) != DEFAULT:
            raise SwitchError(
                f"No file says where the kubelet's runtime is, so it is {DEFAULT}, not {self.wish.runtime}. "
                f"Nothing was changed."
            )

    def _original(self, path: str) -> str | None:
        entry = self.ledger.find("file", self._real(path))
        if entry is None:
            return None
        try:
            return self.ledger.original(entry).decode()
        except (ValueError, OSError):
            return None

    def _read(self, path: str) -> str | None:
        return read_text(self.root, path) if os.path.isfile(under(self.root, path)) else None

    def _said(self, path: str, kind: str) -> str:
        return said_in(path, self._read(path), kind)

    def _flag_files(self) -> list[str]:
        """All files in which a flag may stand."""
        found = list(FLAG_FILES)
        for place in UNIT_PLACES:
            found += [*drop_ins_of(self.root, place), os.path.join(place, UNIT)]
        seen: dict[str, str] = {}  # /lib is /usr/lib where both are one
        for path in found:
            seen.setdefault(os.path.realpath(under(self.root, path)), path)
        return list(seen.values())

    def _version(self, process: KubeletProcess | None) -> tuple[int, ...]:
        binary = (process.executable if process else "") or find_binary(self.root, "kubelet")
        if not binary:
            raise SwitchError("There is no kubelet on this node. Nothing was changed.")
        _code, out, err = self.systemd.run([binary.removesuffix(" (deleted)"), "--version"])
        version = parse_version(out)
        if not version:
            raise SwitchError(f"{binary} --version tells no version: {(err or out).strip()}. Nothing was changed.")
        return tuple(int(number) for number in version.split("-")[0].split("+")[0].split(".")[:2])

    def _is_due(self, process: KubeletProcess | None, found: list[Place]) -> bool:
        """Whether the running kubelet has not read what stands in the files, or was not seen well with it."""
        if not found and not self.wish.proxied:
            return process is not None and plain(parse_flags(process.arguments).get(FLAG, "")) == plain(self.wish.proxy)
        if process is None:
            return True
        flag = parse_flags(process.arguments).get(FLAG)
        if flag is not None and plain(flag) != plain(self.wish.endpoint):
            return True
        return read(self._note) is not None

    @property
    def _note(self) -> str:
        return os.path.join(os.path.dirname(self.ledger.directory), RESTART_NOTE)

    # The deeds

    def _switch(self, texts: dict[str, str], process: KubeletProcess | None) -> None:
        before = self._serving(self.wish.proxy if self.wish.proxied else self.wish.runtime)
        try:
            self._note_restart()
            self._write(texts)
            self._restart()
        except (UnitError, SwitchError, EndpointError, OSError) as problem:
            if not self.wish.proxied or process is None:
                raise SwitchError(f"The kubelet is not well: {problem}\n{self.systemd.journal(UNIT)}") from problem
            journal = self.systemd.journal(UNIT)
            raise SwitchError(f"{problem}\n{self._go_back(process)}\nIts journal before that:\n{journal}") from problem
        try:
            self.outcome.lost = sorted(before - self.world.containers(self.wish.runtime))
        except OSError:
            pass  # it is Ready, and what ran is asked for no more than a report

    def _serving(self, socket: str) -> set[str]:
        """The containers that run, by real calls to the socket that the kubelet will have."""
        try:
            return self.world.containers(plain(socket))
        except OSError as problem:
            raise SwitchError(
                f"The kubelet was not sent to {socket}, because no runtime answers there: {problem}. Nothing was "
                f"changed."
            ) from problem

    def _write(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            self.ledger.write_file(under(self.root, path), text.encode())
        if any(is_systemd_file(path) for path in texts):
            self.systemd.daemon_reload()

    def _note_restart(self) -> None:
        os.makedirs(os.path.dirname(self._note), 0o755, exist_ok=True)
        put_file(self._note, b"", FileState("file", mode=0o600))

    def _restart(self) -> None:
        since = self.world.time()
        began = self.systemd.clock()
        self.systemd.restart(UNIT, self.wish.timeout)
        self._verify()
        if not self.wish.proxied:
            remove(self._note)  # it has its runtime's own socket: nothing of ours is left to judge
        while not (found := self.world.ready(since)).ready:
            if self.systemd.clock() - began > self.wish.timeout:
                raise SwitchError(
                    f"The node is not Ready {self.wish.timeout:g} s after its kubelet's restart: {found.reason}"
                )
            self.systemd.sleep(PAUSE)
        self._ask_itself()
        remove(self._note)
        self.outcome.downtime = round(self.systemd.clock() - began, 1)

    def _verify(self) -> None:
        """Hold the running kubelet to what it was told, and to what it says of itself where we may ask."""
        process = find_process(self.root, "kubelet")
        if process is None:
            raise SwitchError("No process is called kubelet after its restart.")
        named = [self._said(path, "config") for path in self._configs(process)]
        told = (
            parse_flags(process.arguments).get(FLAG)
            or next((endpoint for endpoint in reversed(named) if endpoint), "")
            or DEFAULT
        )
        if plain(told) != plain(self.wish.endpoint):
            raise SwitchError(
                f"The kubelet runs with {told} as its runtime, not {self.wish.endpoint}: "
                f"something else sets --{FLAG} or {KEY}."
            )

    def _ask_itself(self) -> None:
        says = self.world.configz()
        if says and plain(says) != plain(self.wish.endpoint):
            raise SwitchError(f"The kubelet's /configz says that its runtime is {says}, not {self.wish.endpoint}.")
        self.outcome.asked = bool(says)

    def _go_back(self, process: KubeletProcess) -> str:
        """Put back all that names the proxy, also what an earlier run wrote, and restart; what came of it."""
        back = Switch(
            Wish(self.wish.proxy, self.wish.runtime, False, self.wish.timeout),
            self.ledger,
            self.systemd,
            self.world,
            self.root,
        )
        try:
            back._write({place.path: after for place, before, after in back._unwanted(process) if before != after})
            back._restart()
            back._forget()
            back._annotate(False)
        except (UnitError, SwitchError, EndpointError, OSError) as problem:
            return f"Going back to {self.wish.runtime} failed too: {problem}. The next run tries all again."
        return f"It was sent back to {self.wish.runtime} and its node is Ready."

    def _annotate(self, check: bool) -> bool:
        changed = self.world.annotate(self.wish.endpoint, check)
        if changed:
            self.outcome.diff.append(_diff("Node annotation", "", f"{self.wish.endpoint}\n"))
        return changed

    def _forget(self) -> None:
        """Nothing of ours stands in the files any more; what somebody else changed in them is theirs. One that names
        the proxy all the same was not known for the kubelet's now: it is remembered until it is put back."""
        for entry in self._entries():
            if os.path.basename(self.wish.proxy).encode() not in (read(entry.name) or b""):
                self.ledger.forget(entry)
        self.ledger.sweep()


def _diff(path: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": before, "after": after}
