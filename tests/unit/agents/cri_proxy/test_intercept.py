# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Which calls the policy hears of, what it hears, and that nothing it does can stop one."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import (
    NEWER,
    POD,
    PolicyDouble,
    body,
    creation,
    update,
)
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import machine
from colocation.common.config import load
from colocation.common.metrics import Registry
from colocation.cri_proxy import messages
from colocation.cri_proxy.bookkeeping import Books
from colocation.cri_proxy.calls import (
    ContainerCreated,
    ContainerRemoved,
    ContainerResized,
    ContainerStopped,
    CreationFailed,
    Edit,
    Event,
    Pod,
    ResizeFailed,
    SandboxCreated,
    SandboxRemoved,
    SandboxStopped,
)
from colocation.cri_proxy.config import Config
from colocation.cri_proxy.hpack import Headers
from colocation.cri_proxy.intercept import Intercept
from colocation.cri_proxy.policy import PlacementPolicy
from colocation.cri_proxy.protocol import MESSAGES
from colocation.cri_proxy.streams import Interest
from colocation.cri_proxy.trouble import Trouble

OK: Headers = ((b"grpc-status", b"0"), (b"grpc-message", b""))
EDIT = Edit(cpuset_cpus="0-3")
MADE = Pod("u-1", "shop", "web-0", {"app": "web"}, {"colocation/hint": "near"}, "kubepods.slice")
CREATE, UPDATE = "CreateContainer", "UpdateContainerResources"


def failed(status: str, message: str = "out of luck") -> Headers:
    return ((b"grpc-status", status.encode()), (b"grpc-message", message.encode()))


def headers(call: str, service: str = "runtime.v1.RuntimeService", *more: tuple[bytes, bytes]) -> Headers:
    return ((b":method", b"POST"), (b":path", f"/{service}/{call}".encode()), *more)


class Proxy:
    """An intercept with a double of the policy."""

    def __init__(self, edit: Edit = EDIT, fails: bool = False) -> None:
        self.registry = Registry()
        self.policy = PolicyDouble(edit, fails)
        self.now = 0.0
        self.intercept = Intercept(self.registry, Trouble(self.registry, lambda: self.now), self.policy)

    def open(self, call: str, *more: tuple[bytes, bytes]) -> Interest:
        interest = self.intercept.interested(headers(call, "runtime.v1.RuntimeService", *more))
        assert interest is not None
        return interest

    def counted(self, line: str) -> bool:
        return f"{line}\n" in self.registry.render()


def test_a_creation_is_edited_and_its_id_is_told() -> None:
    proxy = Proxy()
    call = proxy.open(CREATE)
    made = call.requested(body(creation()))
    assert NEWER["CreateContainerRequest"].FromString(made[5:]).config.linux.resources.cpuset_cpus == "0-3"
    (asked,) = proxy.policy.creations
    call.answered(OK, body(MESSAGES["CreateContainerResponse"](container_id="c-9")))
    assert proxy.policy.events == [ContainerCreated(asked.key, "c-9")]
    assert proxy.counted('colocation_cri_requests_total{call="CreateContainer",result="edited"} 1')


def test_an_empty_edit_leaves_the_bytes() -> None:
    proxy = Proxy(Edit())
    sent = body(creation())
    assert proxy.open(CREATE).requested(sent) is sent
    assert proxy.counted('colocation_cri_requests_total{call="CreateContainer",result="left"} 1')


def test_a_resize_is_edited_and_told() -> None:
    proxy = Proxy()
    call = proxy.open(UPDATE)
    made = call.requested(body(update()))
    assert NEWER["UpdateContainerResourcesRequest"].FromString(made[5:]).linux.cpuset_cpus == "0-3"
    call.answered(OK, body(MESSAGES["ListContainersRequest"]()))
    assert proxy.policy.events == [ContainerResized(proxy.policy.resizes[0].key, "c-1")]


def test_keys_tell_requests_apart() -> None:
    proxy = Proxy()
    for _turn in range(3):
        proxy.open(CREATE).requested(body(creation()))
        proxy.open(UPDATE).requested(body(update()))
    keys = [asked.key for asked in (*proxy.policy.creations, *proxy.policy.resizes)]
    assert len(set(keys)) == 6
    assert all(keys)


@pytest.mark.parametrize(
    ("trailers", "reason", "certain"),
    [
        (failed("5", "no%20such image %E2%98%83"), "no such image ☃", True),
        (failed("2"), "out of luck", True),
        (failed("1"), "out of luck", False),
        (failed("4"), "out of luck", False),
        (failed("14"), "out of luck", False),
        ((), "", False),
    ],
)
def test_a_failure_says_whether_the_runtime_did_nothing(trailers: Headers, reason: str, certain: bool) -> None:
    proxy = Proxy()
    create, resize = proxy.open(CREATE), proxy.open(UPDATE)
    create.requested(body(creation()))
    resize.requested(body(update()))
    create.answered(trailers, b"")
    resize.answered(trailers, b"")
    first, second = proxy.policy.creations[0].key, proxy.policy.resizes[0].key
    assert proxy.policy.events == [
        CreationFailed(first, reason, certain),
        ResizeFailed(second, "c-1", reason, certain),
    ]


def test_a_lost_call_is_told() -> None:
    proxy = Proxy()
    call = proxy.open(CREATE)
    call.requested(body(creation()))
    call.lost("the connection ended", False)
    assert proxy.policy.events == [CreationFailed(proxy.policy.creations[0].key, "the connection ended", False)]


def test_an_answer_that_can_not_be_read_is_a_failure_that_is_not_certain() -> None:
    proxy = Proxy()
    for answer in (None, b"", b"\0\0\0\0\3\x0a\x09a"):
        call = proxy.open(CREATE)
        call.requested(body(creation()))
        call.answered(OK, answer)
    assert [(type(event), getattr(event, "certain", None)) for event in proxy.policy.events] == [
        (CreationFailed, False)
    ] * 3


@pytest.mark.parametrize(
    ("call", "request_fields", "answer", "event"),
    [
        ("RunPodSandbox", {"config": POD}, {"pod_sandbox_id": "s-2"},
         SandboxCreated("s-2", MADE)),
        ("StopPodSandbox", {"pod_sandbox_id": "s-1"}, {}, SandboxStopped("s-1")),
        ("RemovePodSandbox", {"pod_sandbox_id": "s-1"}, {}, SandboxRemoved("s-1")),
        ("StopContainer", {"container_id": "c-1"}, {}, ContainerStopped("c-1")),
        ("RemoveContainer", {"container_id": "c-1"}, {}, ContainerRemoved("c-1")),
    ],
)  # fmt: skip
def test_what_is_read_in_passing(
    call: str, request_fields: dict[str, object], answer: dict[str, str], event: Event
) -> None:
    proxy = Proxy()
    sent = body(MESSAGES[f"{call}Request"](**request_fields))
    answered = body(MESSAGES.get(f"{call}Response", MESSAGES["VersionRequest"])(**answer))
    interest = proxy.open(call)
    assert not interest.holds
    interest.requested(sent)
    interest.answered(OK, answered)
    assert proxy.policy.events == [event]
    for trailers, content in ((failed("5"), b""), ((), answered), (OK, None)):
        other = proxy.open(call)
        other.requested(sent)
        other.answered(trailers, content)
    unread = proxy.open(call)
    unread.let_go("it is too large")
    unread.answered(OK, answered)
    assert proxy.policy.events == [event]


@pytest.mark.parametrize(
    "path",
    ["ListContainers", "Version", "GetContainerEvents", "PullImage", "ExecSync", "CreateContainer2", ""],
)
def test_other_calls_are_of_no_interest(path: str) -> None:
    assert Proxy().intercept.interested(headers(path)) is None


@pytest.mark.parametrize(
    "service", ["runtime.v1.ImageService", "runtime.v2.RuntimeService", "runtime.v1alpha2.RuntimeService"]
)
def test_other_services_are_of_no_interest(service: str) -> None:
    assert Proxy().intercept.interested(headers(CREATE, service)) is None
    assert Proxy().intercept.interested(()) is None


def test_without_a_policy_nothing_is_of_interest() -> None:
    proxy = Proxy()
    proxy.intercept.policy = None
    assert proxy.intercept.interested(headers(CREATE)) is None


@pytest.mark.parametrize("header", [(b"content-length", b"5"), (b"grpc-encoding", b"gzip")])
def test_requests_that_could_not_be_changed_rightly_pass(header: tuple[bytes, bytes]) -> None:
    proxy = Proxy()
    assert proxy.intercept.interested(headers(CREATE, "runtime.v1.RuntimeService", header)) is None
    assert proxy.counted('colocation_cri_requests_total{call="CreateContainer",result="passed unread"} 1')
    assert proxy.open(CREATE, (b"grpc-encoding", b"identity")).holds


@pytest.mark.parametrize("sent", [b"", b"\1\0\0\0\1a", b"\0\0\0\0\1a\0\0\0\0\1a"])
def test_bodies_that_are_not_one_plain_message_pass(sent: bytes) -> None:
    proxy = Proxy()
    call = proxy.open(CREATE)
    assert call.requested(sent) == sent
    call.answered(OK, b"\0\0\0\0\0")
    assert not proxy.policy.creations
    assert not proxy.policy.events


@pytest.mark.parametrize("call", [CREATE, UPDATE])
def test_a_message_that_is_no_protobuf_passes(call: str) -> None:
    proxy = Proxy()
    sent = messages.wrapped(b"\xff\xff\xff")
    interest = proxy.open(call)
    assert interest.requested(sent) == sent
    interest.lost("over", False)
    assert not proxy.policy.events
    assert proxy.counted('colocation_cri_fail_open_total{part="message"} 1')


@pytest.mark.parametrize("edit", [EDIT, Edit(cpuset_cpus="all of them"), None, Edit(memory_limit="1G")])  # type: ignore[arg-type]
def test_whatever_the_policy_does_the_kubelets_bytes_go_on(edit: Edit, caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy(edit, fails=edit is EDIT)
    sent = body(creation())
    with caplog.at_level(logging.INFO):
        for _turn in range(5):
            call = proxy.open(CREATE)
            assert call.requested(sent) == sent
            call.answered(OK, body(MESSAGES["CreateContainerResponse"](container_id="c-9")))
    if edit is None:  # which is what a policy without a `return` says: no edit
        assert proxy.counted('colocation_cri_requests_total{call="CreateContainer",result="left"} 5')
        return
    assert proxy.counted('colocation_cri_requests_total{call="CreateContainer",result="failed open"} 5')
    assert len(caplog.records) == 1, "said once"
    proxy.now = 61
    proxy.open(CREATE).requested(sent)
    assert len(caplog.records) == 2, "and again a minute later"
    assert {type(event) for event in proxy.policy.events} == {ContainerCreated}, "it hears how it ended all the same"


def test_a_resize_that_the_policy_can_not_decide_goes_on() -> None:
    proxy = Proxy(fails=True)
    sent = body(update())
    call = proxy.open(UPDATE)
    assert call.requested(sent) == sent
    call.answered(OK, body(MESSAGES["ListContainersRequest"]()))
    assert proxy.counted('colocation_cri_requests_total{call="UpdateContainerResources",result="failed open"} 1')
    assert {type(event) for event in proxy.policy.events} == {ContainerResized}


def test_a_policy_that_can_not_hear_what_happened_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = Proxy()
    monkeypatch.setattr(proxy.policy, "observe", lambda _event: 1 / 0)
    with caplog.at_level(logging.INFO):
        made = proxy.open(CREATE)
        assert made.requested(body(creation())) != body(creation())
        made.answered(OK, body(MESSAGES["CreateContainerResponse"](container_id="c-9")))
        proxy.open(UPDATE).lost("over", False)
        stopped = proxy.open("StopContainer")
        stopped.requested(body(MESSAGES["StopContainerRequest"](container_id="c-9")))
        stopped.answered(OK, body(MESSAGES["VersionRequest"]()))
    assert proxy.counted('colocation_cri_fail_open_total{part="policy"} 2')
    assert len(caplog.records) == 1


@pytest.mark.parametrize("part", ["judge", "is_on_system", "book", "memory"])
def test_any_fault_of_the_real_policy_leaves_the_request_and_harms_no_later_one(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    policy = PlacementPolicy()
    policy.configure(load(Config, "", "f"), machine("hygon-c86"))
    intercept = Intercept(registry, Trouble(registry), policy)
    sent = body(unpinned())

    def ask() -> bytes:
        interest = intercept.interested(headers(CREATE))
        assert interest is not None
        return interest.requested(sent)

    with monkeypatch.context() as broken:
        broken.setattr(Books, part, lambda *_all: 1 / 0)
        assert ask() == sent
    assert 'colocation_cri_fail_open_total{part="policy"} 1\n' in registry.render()
    assert NEWER["CreateContainerRequest"].FromString(ask()[5:]).config.linux.resources.cpuset_cpus == "0-3,32-35"


def unpinned() -> Any:
    """A creation that the kubelet leaves to us."""
    request = creation()
    request.config.linux.resources.cpuset_cpus = ""
    return request
