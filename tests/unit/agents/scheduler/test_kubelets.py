# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The kubelets as a source: what their text says, and to whom our token is given."""

from __future__ import annotations

import contextlib
import math
import ssl
import threading
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Authority
from ansible_collections.colocation.kubernetes.tests.unit.agents.scheduler.cluster_parts import GIB
from colocation.common.config import load
from colocation.common.kube_access import Access, Material
from colocation.scheduler import kubelets
from colocation.scheduler.config import Kubelets
from colocation.scheduler.fetch import FetchError
from colocation.scheduler.kubelet_text import rate, read_resource_metrics
from colocation.scheduler.kubelet_token import AccountToken
from colocation.scheduler.kubelets import SECOND_CHANCE, KubeletSource, _Means
from colocation.scheduler.nodes import Node
from colocation.scheduler.pods import Amount
from colocation.scheduler.sources import SourceError

TEXT = """\
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total {cpu} {stamp}
node_memory_working_set_bytes 2.147483648e+09 {stamp}
container_memory_working_set_bytes{{container="c",namespace="d",pod="p"}} 1 {stamp}
pod_cpu_usage_seconds_total{{namespace="d",pod="p"}} {cpu} {stamp}
pod_memory_working_set_bytes{{namespace="d",pod="p"}} 1024 {stamp}
"""


class FakeKubelet(ThreadingHTTPServer):
    """Answers /metrics/resource, with a certificate that may change."""

    daemon_threads = True

    def __init__(self, certificate: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cpu, self.stamp = 100.0, 1_000_000
        self.status = 200
        self.tokens: list[str] = []
        self.certificates: list[bool] = []
        self.shows(certificate)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def shows(self, certificate: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # handshakes that a client breaks off are part of the tests

    def later(self, seconds: float, cpu: float) -> None:
        self.stamp += int(seconds * 1000)
        self.cpu += cpu


class _Handler(BaseHTTPRequestHandler):
    server: FakeKubelet

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers.get("Authorization", ""))
        self.server.certificates.append(bool(cast(ssl.SSLSocket, self.connection).getpeercert(binary_form=True)))
        self.send_response(self.server.status if self.path == "/metrics/resource" else 404)
        self.end_headers()
        self.wfile.write(TEXT.format(cpu=self.server.cpu, stamp=self.server.stamp).encode())

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Certificates that nobody signed but who made them, as kubeadm's kubelets have."""
    made = []
    for number in range(2):
        place = tmp_path_factory.mktemp("stranger")
        made.append(Authority(place, f"kubelet-{number}").issue("n1"))
    return made


@pytest.fixture
def kubelet(strangers: list[Path]) -> Iterator[FakeKubelet]:
    made = FakeKubelet(strangers[0])
    yield made
    made.shutdown()
    made.server_close()


def source(
    authority: Authority, policy: str = "pin", pods: bool = False, seconds: float = 60.0, mine: str = ""
) -> KubeletSource:
    ours = Material(mine)
    token = Material(content="secret")
    access = Access("127.0.0.1", 1, Material(str(authority.certificate)), certificate=ours, key=ours, token=token)
    settings = load(Kubelets, f"{{certificates: {policy}, timeout_seconds: 20}}", "kubelets")
    return KubeletSource(lambda: access, settings, seconds, pods)


def nodes(kubelet: FakeKubelet, *names: str) -> dict[str, Node]:
    size = Amount(4.0, 8 * GIB)
    return {name: Node(name, size, size, "127.0.0.1", kubelet.server_address[1]) for name in names or ("n1",)}


def test_memory_at_once_and_the_processor_from_the_second_round_on(authority: Authority, kubelet: FakeKubelet) -> None:
    made = source(authority, pods=True)
    first = made.sample(nodes(kubelet))
    cpu, memory = first.nodes["n1"]
    assert cpu is None
    assert memory is not None
    assert (memory.share, memory.stamp) == (0.25, 1000.0)
    kubelet.later(10, 20)
    second = made.sample(nodes(kubelet))
    cpu, _memory = second.nodes["n1"]
    assert cpu is not None
    assert (cpu.share, cpu.stamp) == (0.5, 1010.0)
    assert second.pods == {"d/p": Amount(2.0, 1024.0)}


def test_a_kubelet_that_began_anew_is_no_idle_one(authority: Authority, kubelet: FakeKubelet) -> None:
    made = source(authority)
    made.sample(nodes(kubelet))
    kubelet.later(10, -90)
    assert made.sample(nodes(kubelet)).nodes["n1"][0] is None
    kubelet.later(10, 4)
    cpu = made.sample(nodes(kubelet)).nodes["n1"][0]
    assert cpu is not None
    assert cpu.share == pytest.approx(0.1)


def test_the_same_look_of_the_kubelet_is_not_counted_as_idle(authority: Authority, kubelet: FakeKubelet) -> None:
    made = source(authority)
    made.sample(nodes(kubelet))
    assert made.sample(nodes(kubelet)).nodes["n1"][0] is None
    kubelet.later(10, 20)
    cpu = made.sample(nodes(kubelet)).nodes["n1"][0]
    assert cpu is not None
    assert cpu.share == pytest.approx(0.5)


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_clock_that_is_set_costs_one_value_and_makes_nobody_idle(
    authority: Authority, kubelet: FakeKubelet, seconds: float
) -> None:
    made = source(authority, pods=True)
    made.sample(nodes(kubelet))
    kubelet.later(10 + seconds, 20)
    first = made.sample(nodes(kubelet))
    assert first.nodes["n1"][0] is None
    assert math.isnan(first.pods["d/p"].cpu)
    kubelet.later(10, 20)
    second = made.sample(nodes(kubelet))
    cpu = second.nodes["n1"][0]
    assert cpu is not None
    assert cpu.share == pytest.approx(0.5)
    assert second.pods["d/p"].cpu == pytest.approx(2.0)


class AccountDouble(AccountToken):
    """Gives tokens of its own making."""

    def __init__(self) -> None:
        self.given = 0

    def get(self) -> str:
        return f"short-{self.given}"

    def forget(self) -> None:
        self.given += 1


def test_the_token_of_the_account_is_shown_and_given_up_when_nobody_takes_it(
    authority: Authority, kubelet: FakeKubelet
) -> None:
    made = source(authority)
    made._account = AccountDouble()
    made.sample(nodes(kubelet))
    kubelet.status = 401
    with pytest.raises(SourceError, match="answers 401"):
        made.sample(nodes(kubelet))
    kubelet.status = 200
    made.sample(nodes(kubelet))
    assert kubelet.tokens == ["Bearer short-0", "Bearer short-0", "Bearer short-1"]


def test_beside_the_token_of_the_account_no_certificate_of_ours_is_shown(
    authority: Authority, kubelet: FakeKubelet
) -> None:
    mine = authority.issue("scheduler")
    kubelet.context.load_verify_locations(authority.certificate)
    kubelet.context.verify_mode = ssl.CERT_OPTIONAL
    made = source(authority, mine=str(mine))
    made.sample(nodes(kubelet))
    made._account = AccountDouble()
    made.sample(nodes(kubelet))
    assert kubelet.certificates == [True, False]


def test_verify_gives_the_token_only_to_who_is_signed(
    authority: Authority, kubelet: FakeKubelet, strangers: list[Path]
) -> None:
    made = source(authority, "verify")
    with pytest.raises(SourceError, match="not to be believed"):
        made.sample(nodes(kubelet))
    assert kubelet.tokens == []
    kubelet.shows(authority.issue("n1"))
    made.sample(nodes(kubelet))
    assert kubelet.tokens == ["Bearer secret"]


def test_pin_takes_the_first_certificate_and_then_no_other(
    authority: Authority, kubelet: FakeKubelet, strangers: list[Path]
) -> None:
    made = source(authority)
    made.sample(nodes(kubelet))
    made.sample(nodes(kubelet))
    assert len(kubelet.tokens) == 2
    kubelet.shows(strangers[1])
    with pytest.raises(SourceError, match="another certificate than before"):
        made.sample(nodes(kubelet))
    assert len(kubelet.tokens) == 2
    made.sample({})
    made.sample(nodes(kubelet))
    assert len(kubelet.tokens) == 3, "a node that was removed and came back is a new one"


def test_pin_never_goes_back_from_one_that_is_signed(
    authority: Authority, kubelet: FakeKubelet, strangers: list[Path]
) -> None:
    made = source(authority)
    made.sample(nodes(kubelet))
    kubelet.shows(authority.issue("n1"))
    made.sample(nodes(kubelet))
    kubelet.shows(strangers[0])
    with pytest.raises(SourceError, match="not to be believed"):
        made.sample(nodes(kubelet))
    assert len(kubelet.tokens) == 2


def test_insecure_takes_any(authority: Authority, kubelet: FakeKubelet, strangers: list[Path]) -> None:
    made = source(authority, "insecure")
    made.sample(nodes(kubelet))
    kubelet.shows(strangers[1])
    made.sample(nodes(kubelet))
    assert len(kubelet.tokens) == 2


def test_what_fails_is_told_and_the_others_are_measured(authority: Authority, kubelet: FakeKubelet) -> None:
    size = Amount(4.0, 8 * GIB)
    some = nodes(kubelet) | {"lost": Node("lost", size, size, "127.0.0.1", 1), "bare": Node("bare", size, size)}
    sampling = source(authority).sample(some)
    assert set(sampling.nodes) == {"n1"}
    (problem,) = sampling.problems
    assert problem.startswith("2 of 3 kubelets were not read: ")
    assert "bare: its Node names no address" in problem
    kubelet.status = 403
    with pytest.raises(SourceError, match="answers 403"):
        source(authority).sample(nodes(kubelet))


@pytest.mark.parametrize(
    "address", ["[::1", "a b", "::1]:1/x#", "ä" * 99, "x" * 300, "user@127.0.0.1", "\0", "..a", "%"]
)
def test_a_strange_address_of_one_node_keeps_no_other_from_being_measured(
    authority: Authority, kubelet: FakeKubelet, address: str
) -> None:
    size = Amount(4.0, 8 * GIB)
    sampling = source(authority).sample(nodes(kubelet) | {"strange": Node("strange", size, size, address, 1)})
    assert set(sampling.nodes) == {"n1"}
    assert sampling.problems[0].startswith("1 of 2 kubelets were not read: strange: ")
    assert len(sampling.problems[0]) < 300


def test_a_round_ends_in_time(authority: Authority, kubelet: FakeKubelet) -> None:
    made = source(authority, seconds=0.0)
    with pytest.raises(SourceError, match="no time was left"):
        made.sample(nodes(kubelet))


class Crowd(KubeletSource):
    """Kubelets that are asked one after the other for the time of a round, 10 s. The dead let it pass, 5 s each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, dead: Collection[int], seconds: float) -> None:
        size = Amount(4.0, 8 * GIB)
        self.nodes = {str(number): Node(str(number), size, size, "127.0.0.1", 1) for number in range(count)}
        self.dead = {str(number) for number in dead}
        self.seconds = seconds  # one that is well takes
        self.now = 1.0
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        monkeypatch.setattr(kubelets, "time", self)
        asking = load(Kubelets, "{at_a_time: 1, timeout_seconds: 5}", "kubelets")
        super().__init__(lambda: Access("127.0.0.1", 1, Material()), asking, 10.0, pods=False)

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def _means(self) -> _Means:
        return _Means(self.tls, self.tls, {}, self.now + self._round_seconds)

    def _fetch(self, node: Node, url: str, means: _Means, seconds: float) -> bytes:
        self.asked.add(node.name)
        takes = math.inf if node.name in self.dead else self.seconds
        self.now += min(takes, seconds)
        if takes > seconds:
            raise FetchError("did not answer")
        return TEXT.format(cpu=1, stamp=1).encode()

    def round(self) -> set[str]:
        """The nodes that are measured in a round."""
        self.asked: set[str] = set()
        with contextlib.suppress(SourceError):
            return set(self.sample(self.nodes).nodes)
        return set()


def test_more_dead_nodes_than_a_round_has_time_for_keep_no_other_from_being_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(monkeypatch, 20, range(10), 0.1)
    for _round in range(5):  # in which each dead one is found out
        crowd.round()
    well = crowd.nodes.keys() - crowd.dead
    asked = set()
    for _round in range(12):
        assert crowd.round() == well
        asked |= crowd.asked
    assert asked == crowd.nodes.keys(), "one that comes back is noticed"
    crowd.dead.clear()
    for _round in range(2):
        crowd.round()
    assert crowd.round() == crowd.nodes.keys()


def test_where_there_is_no_time_for_all_they_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(monkeypatch, 10, (), 2.5)
    rounds = [crowd.round() for _round in range(5)]
    assert [sum(name in found for found in rounds) for name in crowd.nodes] == [2] * 10


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 8), st.floats(0.01, 12))
def test_every_kubelet_is_asked_again_and_again(data: st.DataObject, count: int, seconds: float) -> None:
    dead = data.draw(st.sets(st.integers(0, count - 1)))
    with pytest.MonkeyPatch.context() as monkeypatch:
        crowd = Crowd(monkeypatch, count, dead, seconds)
        for _again in range(2):
            asked = set()
            for _round in range(SECOND_CHANCE * count):
                crowd.round()
                asked |= crowd.asked
            assert asked == crowd.nodes.keys()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("node_cpu_usage_seconds_total 7", (5.0, 7.0)),
        ("node_cpu_usage_seconds_total 7 2000", (2.0, 7.0)),
        ("node_cpu_usage_seconds_total much", None),
        ("node_cpu_usage_seconds_total 7 " + 400 * "9", None),
        ("node_cpu_usage_seconds_total_other 7", None),
        ("xnode_cpu_usage_seconds_total 7", None),
    ],
)
def test_lines(line: str, found: tuple[float, float] | None) -> None:
    assert read_resource_metrics(line.encode() + b"\n", 5.0).processor == found


@pytest.mark.parametrize(
    ("before", "after", "is_number"),
    [
        (None, (1, 1), False),
        ((0, 0), (0.5, 1), False),
        ((0, 5), (10, 1), False),
        ((0, 0), (10, 1), True),
        ((0, 0), (25, 1), True),
        ((0, 0), (3600, 1), False),
    ],
)
def test_rates(before: Any, after: Any, is_number: bool) -> None:
    assert math.isnan(rate(before, after, 10.0)) is not is_number
