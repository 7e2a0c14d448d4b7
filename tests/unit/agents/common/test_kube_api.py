# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The API client against a double of the API server over real TLS."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    Answer,
    ApiDouble,
    Authority,
    api_double,
)
from colocation.common.kube_access import Access, AccessError, Material
from colocation.common.kube_api import JSON_PATCH, ApiError, Event, KubeApi, kubeconfig
from colocation.common.retry import Backoff

NODE = "/api/v1/nodes/n1"
BUSY = Answer(503, {"message": "not now"})


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("one\n")
    return file


@pytest.fixture
def access(double: ApiDouble, authority: Authority, token: Path) -> Access:
    ca = Material(str(authority.certificate))
    return Access("127.0.0.1", double.server_address[1], ca, token=Material(str(token)))


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def api(access: Access, waits: list[float]) -> KubeApi:
    return KubeApi(lambda: access, timeout=3, backoff=Backoff(0.01, 0.02, 3), sleep=waits.append)


def replace_file(file: Path, content: str) -> None:
    """As Kubernetes and the kubelet do: another file in its place."""
    other = file.with_suffix(".new")
    other.write_text(content)
    other.replace(file)


def test_get_post_and_patch(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [Answer(200, {"kind": "Node"}), Answer(201, {"kind": "Eviction"}), Answer(200, {"kind": "Node"})]
    assert api.get("/api/v1/pods", fieldSelector="spec.nodeName=n1") == {"kind": "Node"}
    assert api.post("/api/v1/namespaces/a/pods/b/eviction", {"kind": "Eviction"}) == {"kind": "Eviction"}
    patch = [{"op": "test", "path": "/a", "value": 1}]
    api.patch(f"{NODE}/status", patch, JSON_PATCH)
    got, posted, patched = double.asked
    assert (got.verb, got.path, got.token) == ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", "one")
    assert (posted.verb, posted.kind, posted.body) == ("POST", "application/json", {"kind": "Eviction"})
    assert (patched.verb, patched.kind, patched.body) == ("PATCH", "application/json-patch+json", patch)


def test_a_refusal_says_what_the_api_said(api: KubeApi, double: ApiDouble, waits: list[float]) -> None:
    double.answers = [Answer(404, {"message": 'nodes "n1" not found', "reason": "NotFound"})]
    with pytest.raises(ApiError, match='answers GET with 404 nodes "n1" not found') as caught:
        api.get(NODE)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert waits == []


@pytest.mark.parametrize("first", [BUSY, Answer(429, {}, {"Retry-After": "1"}), Answer(None)])
def test_a_read_is_tried_again(first: Answer, api: KubeApi, double: ApiDouble, waits: list[float]) -> None:
    double.answers = [first, Answer(200, {"a": 1})]
    assert api.get(NODE) == {"a": 1}
    assert len(waits) == 1
    assert waits[0] <= 0.02


def test_a_read_is_not_tried_for_ever(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [BUSY]
    with pytest.raises(ApiError, match="not now"):
        api.get(NODE)
    assert len(double.asked) == 3


@pytest.mark.parametrize(
    "first", [BUSY, Answer(None), Answer(429, {"reason": "TooManyRequests"}, {"Retry-After": "10"})]
)
def test_a_write_that_was_sent_is_never_sent_again(first: Answer, api: KubeApi, double: ApiDouble) -> None:
    double.answers = [first, Answer(201, {})]
    with pytest.raises(ApiError) as caught:
        api.post("/api/v1/namespaces/a/pods/b/eviction", {})
    assert len(double.asked) == 1
    assert caught.value.retry_after == (10 if first.status == 429 else None)


def test_a_write_that_could_not_be_sent_is_tried_again(authority: Authority, access: Access) -> None:
    with api_double(authority) as late:
        places = iter((replace(access, port=1), replace(access, port=late.server_address[1])))
        found: list[Access] = []

        def find() -> Access:
            found.append(next(places))
            return found[-1]

        def forget(_seconds: float) -> None:
            Path(access.token.file).write_text("another")  # credentials are read again

        assert KubeApi(find, timeout=3, sleep=forget).post("/a", {"b": 1}) == {}
        assert len(late.asked) == 1


def test_a_replaced_token_is_used_at_once(api: KubeApi, double: ApiDouble, token: Path) -> None:
    api.get(NODE)
    replace_file(token, "two\n")
    api.get(NODE)
    assert [asked.token for asked in double.asked] == ["one", "two"]


def test_a_replaced_certificate_is_used_at_once(
    double: ApiDouble, authority: Authority, access: Access, tmp_path: Path
) -> None:
    current = tmp_path / "current.pem"
    current.symlink_to(authority.issue("node-1"))
    pem = Material(str(current))
    api = KubeApi(lambda: replace(access, certificate=pem, key=pem), timeout=3)
    api.get(NODE)
    other = tmp_path / "other"
    other.symlink_to(authority.issue("node-2"))
    other.replace(current)
    api.get(NODE)
    assert [asked.who for asked in double.asked] == ["node-1", "node-2"]


def test_certificates_in_the_kubeconfig_touch_no_disk(double: ApiDouble, authority: Authority, access: Access) -> None:
    pem = authority.issue("inline").read_text()
    certificate, key = pem.split("-----BEGIN PRIVATE KEY")
    inline = replace(
        access,
        ca=Material(content=authority.certificate.read_text()),
        certificate=Material(content=certificate),
        key=Material(content=f"-----BEGIN PRIVATE KEY{key}"),
    )
    before = len(os.listdir("/proc/self/fd"))
    KubeApi(lambda: inline, timeout=3).get(NODE)
    assert double.asked[0].who == "inline"
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the double's end may still be open


def test_a_401_reads_the_credentials_once_more(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [Answer(401, {}), Answer(200, {"a": 1}), Answer(401, {})]
    assert api.get(NODE) == {"a": 1}
    with pytest.raises(ApiError, match="401"):
        api.patch(NODE, {})
    assert len(double.asked) == 4


def test_another_authority_is_refused(access: Access, tmp_path: Path, double: ApiDouble) -> None:
    stranger = Authority(tmp_path, "stranger")
    api = KubeApi(lambda: replace(access, ca=Material(str(stranger.certificate))), timeout=3, sleep=lambda _s: None)
    with pytest.raises(ApiError, match="certificate verify failed") as caught:
        api.get(NODE)
    assert caught.value.status == 0
    assert double.asked == []


def test_the_name_in_the_certificate_may_be_another(access: Access, double: ApiDouble) -> None:
    by_name = replace(access, server_name="kubernetes")
    assert KubeApi(lambda: by_name, timeout=3).get(NODE) == {}
    with pytest.raises(ApiError, match="mismatch"):
        KubeApi(lambda: replace(access, server_name="other"), timeout=3, sleep=lambda _s: None).get(NODE)


def test_nothing_secret_is_in_an_error(access: Access, token: Path, double: ApiDouble) -> None:
    token.write_text("sec\u00a0ret")
    with pytest.raises(ApiError, match="characters that no token has") as caught:
        KubeApi(lambda: access, sleep=lambda _s: None).get(NODE)
    assert "ret" not in str(caught.value).replace("secret", "")
    assert double.asked == []


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"none\.conf can't be read"):
        kubeconfig(str(tmp_path / "none.conf"))()
    with pytest.raises(ApiError, match=r"none\.conf can't be read"):
        KubeApi(kubeconfig(str(tmp_path / "none.conf")), sleep=lambda _s: None).get(NODE)


def test_an_answer_that_is_no_object_is_an_error(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [Answer(200, b"<html>")]
    with pytest.raises(ApiError, match="no JSON object"):
        api.get(NODE)


def test_a_watch_yields_changes_until_the_server_ends_it(api: KubeApi, double: ApiDouble) -> None:
    events = [{"type": kind, "object": {"n": n}} for n, kind in enumerate(("ADDED", "MODIFIED", "BOOKMARK"))]
    large = {"type": "ADDED", "object": {"text": "x" * 200_000}}
    double.answers = [Answer(200, [*events, large])]
    seen = list(api.watch("/api/v1/pods", "7", 5))
    assert seen[:3] == [Event("ADDED", {"n": 0}), Event("MODIFIED", {"n": 1}), Event("BOOKMARK", {"n": 2})]
    assert len(seen[3].object["text"]) == 200_000
    assert double.asked[0].path == ("/api/v1/pods?watch=1&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=5")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(410, {"message": "too old", "reason": "Expired"}),
        Answer(200, {"type": "ERROR", "object": {"code": 410, "message": "too old", "reason": "Expired"}}),
    ],
)
def test_a_watch_that_came_too_late_says_so(answer: Answer, api: KubeApi, double: ApiDouble) -> None:
    double.answers = [answer]
    with pytest.raises(ApiError, match="too old") as caught:
        list(api.watch("/api/v1/pods", "7"))
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


def test_something_else_is_no_watch(api: KubeApi, double: ApiDouble) -> None:
    double.answers = [Answer(200, {"kind": "PodList"})]
    with pytest.raises(ApiError, match="this is no event"):
        list(api.watch("/api/v1/pods", "7"))
