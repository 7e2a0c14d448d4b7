# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reading from certificates and tokens whose they are and how long they hold."""

from __future__ import annotations

import base64
import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._validity import (
    Validity,
    ValidityError,
    iso,
    of_certificate,
    of_token,
    public_key_info,
)
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils import credentials_made as made

DAY = 86400
GOOD = ssl.PEM_cert_to_DER_cert(made.certificate("system:node:w1", 0, DAY))
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=16)  # 64 bytes at most


@given(NAMES, st.integers(0, 3 * 10**9), st.integers(1, 10**9))
def test_a_certificate_says_its_user_and_time(name: str, begins: int, lifetime: int) -> None:
    """Also beyond 2050, where certificates write their years with four digits."""
    pem = made.certificate(name, begins, begins + lifetime)
    assert of_certificate("a preface\n" + pem + made.certificate("an authority", 0, 1)) == Validity(
        name, begins, begins + lifetime
    )


def test_a_certificate_without_a_name() -> None:
    assert of_certificate(made.certificate("", 0, 1, group="only a group")).user == ""


@given(st.data())
def test_a_damaged_certificate_is_an_error_or_read(data: st.DataObject) -> None:
    der = bytearray(GOOD)
    for dummy in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, 150))] = data.draw(st.integers(0, 255))
    text = ssl.DER_cert_to_PEM_cert(bytes(der[: data.draw(st.integers(1, 300))]))
    try:
        of_certificate(text)
    except ValidityError as problem:
        assert "damaged" in str(problem)


@given(st.text())
def test_any_text_is_no_certificate(text: str) -> None:
    with pytest.raises(ValidityError, match="no certificate in it"):
        of_certificate(text)


def test_what_is_no_base64_is_damaged() -> None:
    with pytest.raises(ValidityError, match="damaged"):
        of_certificate("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n")


def test_a_token_says_its_user_and_time() -> None:
    user = "system:serviceaccount:kube-system:colocation-agent-w1"
    assert of_token(made.token(user, 100, 200)) == Validity(user, 100, 200)


@given(st.one_of(st.text(), st.binary().map(lambda b: "a." + base64.urlsafe_b64encode(b).decode() + ".c")))
def test_another_text_is_no_token_and_is_not_told(text: str) -> None:
    with pytest.raises(ValidityError) as caught:
        of_token(text)
    assert str(caught.value) == "its token does not say how long it holds"


def test_due_by_days_and_by_share() -> None:
    year, day = Validity("", 0, 365 * DAY), Validity("", 0, DAY)
    assert not year.due(300 * DAY, 30, 0.5)
    assert year.due(340 * DAY, 30, 0.5)
    assert not day.due(0.4 * DAY, 30, 0.5)  # 30 days are more than it ever had
    assert day.due(0.6 * DAY, 30, 0.5)
    assert not day.due(0.6 * DAY, 30, 0.1)


def test_moments_are_written_as_kubernetes_does() -> None:
    assert iso(1795015193) == "2026-11-18T15:19:53Z"


@given(st.integers(0, 600), st.integers(0, 255))
def test_a_damaged_certificate_gives_no_key_or_one(place: int, byte: int) -> None:
    whole = made.certificate("someone", 0, 10)
    der = bytearray(base64.b64decode("".join(whole.splitlines()[1:-1])))
    der[place % len(der)] = byte
    body = base64.b64encode(bytes(der)).decode()
    with contextlib.suppress(ValidityError):
        public_key_info(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
