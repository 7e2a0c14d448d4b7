# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kubernetes quantities: `1k`, `1000` and `1e3` are the same amount, written three ways.

An amount is kept exactly, as a whole number of billionths, the finest that the API keeps; what is finer is rounded away
from zero, as the API does. The canonical form is what the API writes back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FORM = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {name + "i": 10 * (place + 1) for place, name in enumerate("KMGTPE")}
_SUFFIXES = {power: name for name, power in _DECIMAL.items()}
_NANO = 9
_ONE = 1_000_000_000  # billionths
_MOST_EXPONENT = 100
_LONGEST = 64
MOST = (1 << 63) - 1  # the largest amount of which the API is sure to be exact


class QuantityError(ValueError):
    """The text is no quantity."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount; two are equal when their amounts are, however they are written."""

    nano: int
    style: str = field(default="decimal", compare=False)  # "decimal", "binary" or "exponent"

    @property
    def whole(self) -> bool:
        return self.nano % _ONE == 0

    @property
    def value(self) -> int:
        """As a whole number, rounded away from zero."""
        return _divide_up(self.nano, _ONE)

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that loses nothing."""
        if self.nano == 0:
            return "0"
        if self.style == "binary" and self.whole and abs(self.value) >= 1024:
            return _binary(self.value)
        return _decimal(self.nano, self.style == "exponent")

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.style)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.style)


ZERO = Quantity(0)


def parse_quantity(text: str) -> Quantity:
    """The amount that a text says, or QuantityError."""
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found[2] or found[3]):
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise QuantityError(f"{shown!r} is no quantity; write for example 10, 1500, 2k or 4Gi")
    sign, digits, fraction, suffix, exponent = found.groups()
    fraction = fraction or ""
    mantissa = int(digits + fraction or "0") * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        nano: int = _divide_up(mantissa * (1 << _BINARY[suffix]) * _ONE, 10 ** len(fraction))
        nano = max(min(nano, MOST * _ONE), -MOST * _ONE)
        return Quantity(nano, "binary" if abs(nano) >= _ONE else "decimal")
    power = int(exponent) if exponent else _DECIMAL[suffix or ""]
    if abs(power) > _MOST_EXPONENT:
        raise QuantityError(f"{text!r} has an exponent beyond {_MOST_EXPONENT}")
    power += _NANO - len(fraction)
    nano = mantissa * 10**power if power >= 0 else _divide_up(mantissa, 10**-power)
    return Quantity(nano, "exponent" if exponent else "decimal")


def _divide_up(number: int, by: int) -> int:
    """Rounded away from zero."""
    whole = -(-abs(number) // by)
    return whole if number >= 0 else -whole


def _binary(value: int) -> str:
    times = 0
    while times < len(_BINARY) and value % 1024 == 0 and abs(value) >= 1024:
        value //= 1024
        times += 1
    suffix = next((name for name, power in _BINARY.items() if power == 10 * times), "")
    return f"{value}{suffix}"


def _decimal(nano: int, as_exponent: bool) -> str:
    power = -_NANO
    while nano % 1000 == 0 and (as_exponent or power < 18):
        nano //= 1000
        power += 3
    if as_exponent:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_SUFFIXES[power]}"
