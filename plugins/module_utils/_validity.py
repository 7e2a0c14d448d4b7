# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How long a credential lives, read from itself: an X.509 certificate or a service account's token.

Nodes have nothing but Python's standard library, which reads certificates only of a connection that stands. What is
needed of the DER is little: the validity and the subject stand at fixed places. Signatures are not checked here: that
is for the API server to do.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_NAMES = {b"\x55\x04\x03": "CN", b"\x55\x04\x0a": "O"}
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


class ValidityError(Exception):
    """This is no certificate or token; the text never holds any of it."""


@dataclass(frozen=True, slots=True)
class Validity:
    """Whose a credential is and from when to when it holds, in seconds since 1970."""

    user: str  # as the API server names it
    begins: float
    ends: float

    @property
    def lifetime(self) -> float:
        return self.ends - self.begins

    def due(self, now: float, days: float, share: float) -> bool:
        """It should be another by now: less is left than so many days and, if it lives shortly, than that share."""
        return self.ends - now < min(days * 86400, self.lifetime * share)


def of_certificate(pem: str) -> Validity:
    """The first certificate in a PEM text, which is the leaf in every file that Kubernetes writes."""
    try:
        return _of_der(_der_of(pem))
    except (binascii.Error, ValueError, StopIteration):
        raise ValidityError("its certificate is damaged") from None


def public_key_info(pem: str) -> bytes:
    """The SubjectPublicKeyInfo of the first certificate in a PEM text, in DER: what pins are made of."""
    try:
        fields = _fields_of(_der_of(pem))
        for dummy in ("algorithm", "issuer", "validity", "subject"):
            next(fields)
        content = _next(fields, _SEQUENCE)
    except (binascii.Error, ValueError, StopIteration):
        raise ValidityError("its certificate is damaged") from None
    return _element(_SEQUENCE, content)


def of_token(token: str) -> Validity:
    """A service account's token, which is a JSON web token."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return Validity(str(claims["sub"]), float(claims["iat"]), float(claims["exp"]))
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        raise ValidityError("its token does not say how long it holds") from None


def iso(moment: float) -> str:
    """A moment as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _der_of(pem: str) -> bytes:
    found = _PEM.search(pem)
    if found is None:
        raise ValidityError("there is no certificate in it")
    return base64.b64decode("".join(found[1].split()), validate=True)


def _fields_of(der: bytes) -> Iterator[tuple[int, bytes]]:
    """What stands in a certificate after its serial number."""
    fields = _children(_only(_only(der, _SEQUENCE), _SEQUENCE))
    if next(fields)[0] == _VERSION:
        next(fields)  # the serial number
    return fields


def _of_der(der: bytes) -> Validity:
    fields = _fields_of(der)
    for dummy in ("algorithm", "issuer"):
        next(fields)
    begins, ends = (_moment(tag, value) for tag, value in _children(_next(fields, _SEQUENCE)))
    return Validity(_common_name(_next(fields, _SEQUENCE)), begins, ends)


def _common_name(subject: bytes) -> str:
    for dummy, relative in _children(subject):
        for dummy, attribute in _children(relative):
            parts = _children(attribute)
            if _NAMES.get(_next(parts, _OID)) == "CN":
                return next(parts)[1].decode()
    return ""


def _moment(tag: int, value: bytes) -> float:
    text = value.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: up to 49 it is this century
        text = ("20" if int(text[:2]) < 50 else "19") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time")
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))


def _only(der: bytes, tag: int) -> bytes:
    """The content of the first element, which must be of that kind."""
    return _next(_children(der), tag)


def _next(elements: Iterator[tuple[int, bytes]], tag: int) -> bytes:
    found, value = next(elements)
    if found != tag:
        raise ValueError("another element")
    return value


def _children(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element."""
    place = 0
    while place < len(der):
        if place + 2 > len(der):
            raise ValueError("cut off")
        tag, length = der[place], der[place + 1]
        place += 2
        if length > 0x80:
            count = length & 0x7F
            length = int.from_bytes(der[place : place + count], "big")
            place += count
        if place + length > len(der):
            raise ValueError("cut off")
        yield tag, der[place : place + length]
        place += length


def _element(tag: int, content: bytes) -> bytes:
    """An element again, head and content."""
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content
