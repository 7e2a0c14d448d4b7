# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The token that kubelets are shown, against a double of the API."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import Answer, ApiDouble, Authority
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import KubeApi
from colocation.scheduler.kubelet_token import LIVES, RENEWED, AccountToken
from colocation.scheduler.sources import SourceError


def given(token: str) -> Answer:
    return Answer(201, {"kind": "TokenRequest", "status": {"token": token}})


class Clock:
    """Goes as it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def account(double: ApiDouble, authority: Authority, clock: Clock) -> AccountToken:
    ca = Material(str(authority.certificate))
    access = Access("127.0.0.1", double.server_address[1], ca, token=Material(content="t"))
    return AccountToken(KubeApi(lambda: access, timeout=20), "kube-system/kubelets", clock)


def test_a_short_one_of_the_account_is_asked_for_once(account: AccountToken, double: ApiDouble) -> None:
    double.answers = [given("one"), given("two")]
    assert [account.get(), account.get()] == ["one", "one"]
    (asked,) = double.asked
    assert (asked.verb, asked.path) == ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/kubelets/token")
    assert asked.body["spec"] == {"expirationSeconds": LIVES}


def test_it_is_renewed_in_time_and_kept_while_it_lives(account: AccountToken, double: ApiDouble, clock: Clock) -> None:
    double.answers = [given("one"), Answer(500, {}), Answer(500, {}), given("two")]
    account.get()
    clock.now += RENEWED + 1
    assert account.get() == "one", "the API does not answer, and the old one is good for as long again"
    clock.now += LIVES - RENEWED - 1
    with pytest.raises(SourceError, match="no token of the account kube-system/kubelets for the kubelets"):
        account.get()
    assert account.get() == "two"


def test_one_that_nobody_takes_is_forgotten(account: AccountToken, double: ApiDouble) -> None:
    double.answers = [given("one"), given("two")]
    account.get()
    account.forget()
    assert account.get() == "two"


@pytest.mark.parametrize("answer", [Answer(403, {"message": "forbidden"}), Answer(201, {}), Answer(201, {"status": 1})])
def test_what_is_no_token_is_told(account: AccountToken, double: ApiDouble, answer: Answer) -> None:
    double.answers = [answer]
    with pytest.raises(SourceError, match="no token of the account"):
        account.get()
