# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A part of the collection in the cluster, had as a whole or not at all.

What is new is tried first, by a pod that must end well. Then what stands is noted in a Secret, the objects are written,
and their workloads must get ready: else what was noted is put back. The note is in the cluster, so a run that was
killed is finished, or taken back, by the next one, from any controller. At last goes what carries our labels and is not
wanted any more.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_objects import (
    WORKLOADS,
    Change,
    Document,
    Name,
    ObjectProblem,
    Objects,
    essence,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_workload import Watch

NOTE = "before.json"


@dataclass(frozen=True, slots=True)
class Wish:
    """What should be in the cluster, and how it is tried."""

    component: str
    namespace: str
    documents: Sequence[Document]
    trial: Sequence[Document] = ()  # made for a while; the Pod among them has to end well
    leftovers: Sequence[Document] = ()  # what the workloads make themselves; only the names count

    @property
    def note(self) -> Name:
        return Name("v1", "Secret", self.namespace, f"colocation-{self.component}-before")


class Deployment:
    """Carries a wish out."""

    def __init__(self, objects: Objects, wish: Wish, watch: Watch | None) -> None:
        self._objects = objects
        self._wish = wish
        self._watch = watch  # none: nothing is waited for, nothing tried and nothing put back

    def present(self, check_mode: bool) -> list[Change]:
        """Have it; all that changed, or would."""
        names = [self._objects.name(document) for document in self._wish.documents]
        planned = [change for change in self._each(self._wish.documents, dry_run=True) if change]
        note = self._objects.find(self._wish.note)
        obsolete = [one for one in self._objects.ours() if one not in names]
        old = [one for one in obsolete if one != self._wish.note or not planned]
        dropped = [change for one in old if (change := self._objects.drop(one, dry_run=True))]
        if check_mode:
            return planned + dropped
        if planned:
            self._try()
        if self._watch and note is None and (planned or dropped):
            self._objects.apply(self._noted(names), dry_run=False)
        done = [change for change in self._each(self._wish.documents, dry_run=False) if change]
        self._settle(names)
        for one in [*obsolete, self._wish.note]:
            self._objects.drop(one, dry_run=False)
        return done + dropped

    def absent(self, check_mode: bool) -> list[Change]:
        """Have nothing of it."""
        known = [self._objects.name(one) for one in self._wish.documents]
        mine = self._objects.ours()
        for name in [name for name in known if name not in mine]:
            standing = self._objects.find(name)
            if standing is not None and name.kind != "Namespace":
                raise ObjectProblem(f"{name} is there and not ours (it has not our labels), so it was not removed")
        leftovers = [self._objects.name(one) for one in self._wish.leftovers]
        return self._all_gone(mine, check_mode) + self._all_gone(leftovers, check_mode)

    def _all_gone(self, names: Sequence[Name], check_mode: bool) -> list[Change]:
        changes = [change for name in names if (change := self._objects.drop(name, check_mode))]
        watch = None if check_mode else self._watch
        for change in changes:
            if watch is not None and watch.gone(change.name):
                raise ObjectProblem(f"{change.name} was told to go and is still there; a finalizer may hold it")
        return changes

    def _each(self, documents: Sequence[Document], dry_run: bool) -> list[Change | None]:
        return [self._objects.apply(document, dry_run) for document in documents]

    def _try(self) -> None:
        """The new configuration by the programs that will read it, before anything that runs sees it."""
        names = [self._objects.name(document) for document in self._wish.trial]
        pods = [name for name in names if name.kind == "Pod"]
        if self._watch is None or not pods:
            return
        self._clear(names, self._watch)  # of a run that was killed
        try:
            self._each(self._wish.trial, dry_run=False)
            problems = [problem for pod in pods if (problem := self._watch.ended(pod))]
        finally:
            self._clear(names, self._watch)
        if problems:
            raise ObjectProblem("The trial failed, so nothing was changed. " + "\n".join(problems))

    def _clear(self, names: Sequence[Name], watch: Watch) -> None:
        grace: dict[str, Any] = {"gracePeriodSeconds": 0}
        for name in reversed(names):
            self._objects.api.remove(self._objects.path(name), grace)
        for name in names:
            watch.gone(name)

    def _noted(self, names: Sequence[Name]) -> Document:
        standing = [(name, self._objects.find(name)) for name in names]
        note = [[dataclasses.astuple(name), None if one is None else essence(one)] for name, one in standing]
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._wish.note.name, "namespace": self._wish.namespace},
            "data": {NOTE: base64.b64encode(json.dumps(note).encode()).decode()},
        }

    def _settle(self, names: Sequence[Name]) -> None:
        """Wait until all runs; else put back what was noted, if anything was."""
        workloads = [name for name in names if name.kind in WORKLOADS]
        problem = self._watch.ready(workloads) if self._watch else ""
        if not problem:
            return
        note = self._objects.find(self._wish.note)
        if note is None:
            raise ObjectProblem(f"Nothing was to be changed, but {problem}")
        before = [(Name(*name), one) for name, one in json.loads(base64.b64decode(note["data"][NOTE]))]
        self._put_back(before)
        raise ObjectProblem(f"{self._told(before)} {problem}")

    def _put_back(self, before: Sequence[tuple[Name, Document | None]]) -> None:
        for name, document in reversed(before):
            if document is None:
                self._objects.drop(name, dry_run=False)
        for _name, document in before:
            if document is not None:
                self._objects.apply(document, dry_run=False)

    def _told(self, before: Sequence[tuple[Name, Document | None]]) -> str:
        """What came of putting back; only then the note goes."""
        workloads = [name for name, document in before if document is not None and name.kind in WORKLOADS]
        still = self._watch.ready(workloads) if self._watch and workloads else ""
        self._objects.drop(self._wish.note, dry_run=False)
        if not workloads:
            return "It did not get ready, and as nothing stood there before, it was removed again."
        if still:
            return f"It did not get ready. What stood before was put back and is not ready either: {still}\nThe new:"
        return "It did not get ready. What stood before was put back and is ready."


def deploy(objects: Objects, wish: Wish, watch: Watch | None, state: str, check_mode: bool) -> list[Change]:
    """Have it or not, as `state` says."""
    deployment = Deployment(objects, wish, watch)
    deed: Callable[[bool], list[Change]] = deployment.present if state == "present" else deployment.absent
    return deed(check_mode)
