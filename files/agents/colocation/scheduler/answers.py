# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the extender answers: /filter and /prioritize for kube-scheduler, /explain for humans and programs."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from colocation import __version__
from colocation.common.journal import Log
from colocation.common.status import Status, to_text
from colocation.scheduler.cluster import Cluster
from colocation.scheduler.counters import Counters
from colocation.scheduler.engine import Engine
from colocation.scheduler.explain import Explanation, by_load, explain, rows_for, to_document, to_table
from colocation.scheduler.http_stream import Request
from colocation.scheduler.pods import NOTHING_SAID, Pod
from colocation.scheduler.ranking import Need, Ranked
from colocation.scheduler.server import Answer
from colocation.scheduler.wire import Question, WireError, filter_result, no_opinion, read_question

REMEMBERED = 1000
EXPLAINED = 200  # nodes, if nobody asks for more: kube-scheduler waits meanwhile
NO_PROFILE = "none"
log = Log("decision")


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod, and what was found best for it."""

    when: float  # seconds since 1970
    pod: str
    uid: str
    profile: str
    need: Need
    candidates: int
    favourite: str | None
    load: float
    full: int


class Answers:
    """Called from the server's thread; `engine` may become another one at any time."""

    def __init__(self, engine: Engine, counters: Counters) -> None:
        self.engine = engine
        self.decisions: deque[Decision] = deque(maxlen=REMEMBERED)
        self._counters = counters
        self._posts = {"/filter": self._filter, "/prioritize": self._prioritize}

    def respond(self, request: Request) -> Answer:
        """The answer to any request."""
        began = time.perf_counter()
        path, _mark, query = request.path.partition("?")
        verb = path[1:]
        if path in self._posts:
            answer = self._asked(self._posts[path], request)
        elif path == "/explain":
            answer = self._explain(parse_qs(query)) if request.method == "GET" else _only("GET")
        elif path == "/livez":
            answer = Answer(200, "ok\n", "text/plain")
        else:
            verb = "other"
            answer = _text(404, "There are /filter and /prioritize (POST), /explain and /livez.")
        self._counters.requests.add(verb=verb, code=str(answer.status))
        self._counters.seconds.observe(time.perf_counter() - began, verb=verb)
        return answer

    def refused(self, status: int) -> None:
        """A connection brought no request."""
        self._counters.requests.add(verb="none", code=str(status))

    def _asked(self, answer: Callable[[Engine, Question], str], request: Request) -> Answer:
        if request.method != "POST":
            return _only("POST")
        engine = self.engine
        try:
            question = read_question(request.body, engine.cluster.memory_resources)
        except WireError as problem:
            return _text(problem.status, str(problem))
        return Answer(200, answer(engine, question))

    def _filter(self, engine: Engine, question: Question) -> str:
        pod, names = question.pod, question.names
        refused = engine.ask(lambda cluster, now: cluster.filter(pod, names, now))
        if refused:
            self._counters.refused.add(len(refused), profile=pod.scheduler)
        return filter_result(names, refused)

    def _prioritize(self, engine: Engine, question: Question) -> str:
        pod, names, log_it = question.pod, question.names, engine.config.log_decisions

        def ask(cluster: Cluster, now: float) -> tuple[Ranked, Need, list[Explanation]] | None:
            ranked = cluster.prioritize(pod, names, now)
            if ranked is None:
                return None
            need, logged = cluster.need_of(pod), [ranked.favourite] if ranked.favourite and log_it else []
            return ranked, need, explain(cluster, pod.scheduler, need, now, logged, pod.uid)

        found = engine.ask(ask)
        if found is None:
            self._counters.decisions.add(profile=NO_PROFILE, result="no opinion")
            return no_opinion(names)
        ranked, need, reasons = found
        decision = self._remember(pod, ranked, need, len(names))
        if log_it:
            _log(decision, ranked.unknown, reasons)
        return ranked.text

    def _remember(self, pod: Pod, ranked: Ranked, need: Need, candidates: int) -> Decision:
        decision = Decision(
            time.time(), pod.key, pod.uid, pod.scheduler, need, candidates, ranked.favourite, ranked.load, ranked.full
        )
        self.decisions.append(decision)
        self._counters.decisions.add(profile=pod.scheduler, result="favourite" if ranked.favourite else "none")
        return decision

    def _explain(self, query: dict[str, list[str]]) -> Answer:
        """?profile=…, or ?pod=namespace/name; &node=… (any number), else the best &most=…; &format=text."""
        engine = self.engine
        profile, pod, form, most = (query.get(name, [""])[-1] for name in ("profile", "pod", "format", "most"))
        decided: Decision | None = None
        if pod:
            decided = next((one for one in reversed(self.decisions) if one.pod == pod), None)
            if decided is None:
                return _text(404, f"Of the last {len(self.decisions)} pods that were scored none is {pod}.")
            profile = profile or decided.profile
        ranking = engine.cluster.rankings.get(profile)
        if ranking is None:
            known = ", ".join(engine.cluster.rankings)
            return _text(404, f"There is no profile {profile!r}. Name a profile ({known}) or a pod.")
        need = decided.need if decided else engine.cluster.need_of(nobody(profile))
        uid = decided.uid if decided else ""
        rows = engine.ask(lambda cluster, _now: rows_for(cluster, profile, uid))
        limit = int(most) if most.isascii() and most.isdigit() and len(most) < 9 else EXPLAINED
        named = query.get("node", [])
        ordered = by_load(rows, ranking.rules, need)
        names = [name for name in ordered if name in named] if named else ordered[:limit]
        found = engine.ask(lambda cluster, now: explain(cluster, profile, need, now, names, uid))
        if form == "text":
            return Answer(200, _as_text(profile, decided, found, len(rows)), "text/plain; charset=utf-8")
        document = to_document(profile, need, found) | {"of": len(rows)}
        if decided is not None:
            document["decided"] = {
                "pod": decided.pod,
                "when": decided.when,
                "favourite": decided.favourite,
                "candidates": decided.candidates,
                "full": decided.full,
            }
        return Answer(200, json.dumps(document, indent=1) + "\n")


def nobody(profile: str) -> Pod:
    """A pod that says nothing, to see how nodes stand without a certain one."""
    return Pod("", "", profile, "", "", False, False, False, NOTHING_SAID, NOTHING_SAID)


def _log(decision: Decision, unknown: int, reasons: list[Explanation]) -> None:
    inputs: dict[str, object] = {}
    for part in reasons[0].inputs if reasons else ():
        inputs[f"{part.resource}_by"] = part.judged_by
        inputs[f"{part.resource}_measured"] = None if part.measured is None else round(part.measured, 4)
        inputs[f"{part.resource}_in_flight"] = round(part.in_flight, 4)
        inputs[f"{part.resource}_requested"] = round(part.requested, 4)
    log.info(
        "scored",
        pod=decision.pod,
        profile=decision.profile,
        favourite=decision.favourite,
        load=round(decision.load, 4),
        candidates=decision.candidates,
        full=decision.full,
        unknown=unknown,
        cpu=round(decision.need.use.cpu, 3),
        memory=round(decision.need.use.memory),
        **inputs,
    )


def _as_text(profile: str, decided: Decision | None, found: list[Explanation], nodes: int) -> str:
    summary = f"{len(found)} of {nodes} nodes for {profile}, best first, as it is now"
    facts: tuple[tuple[str, str | int | None], ...] = ()
    if decided is not None:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(decided.when))
        facts = (
            ("pod", decided.pod),
            ("was scored", when),
            ("best then", decided.favourite),
            ("candidates", decided.candidates),
        )
    return to_text(Status("explain", __version__, summary, (), facts, (to_table("Nodes", found),)))


def _only(method: str) -> Answer:
    return _text(405, f"Here only {method} is answered.")


def _text(status: int, text: str) -> Answer:
    return Answer(status, text + "\n", "text/plain; charset=utf-8")
