# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Kubernetes quantities as numbers: "250m" is 0.25, "1Gi" is 1073741824.0. Nothing is written back, so a float does."""

from __future__ import annotations

import functools
import re

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_FACTORS |= {name + "i": float(1 << 10 * (place + 1)) for place, name in enumerate("KMGTPE")}
_LONGEST = 64
_MOST = 1e19  # what the API keeps ends at 2**63


def quantity(text: object) -> float | None:
    """The amount, or None for what is no quantity."""
    if not isinstance(text, str | int | float) or isinstance(text, bool):
        return None
    return _read(shown) if len(shown := str(text)) <= _LONGEST else None


@functools.lru_cache(1024)  # a burst of pods says the same few again and again
def _read(text: str) -> float | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, suffix, exponent = found.groups()
    amount = float(f"{number}e{exponent}") if exponent else float(number) * _FACTORS.get(suffix, 1.0)
    return max(min(amount, _MOST), -_MOST)


def is_quantity(text: str) -> str | None:
    """A check for configurations: an amount above zero."""
    amount = quantity(text)
    return None if amount is not None and amount > 0 else f'"{text}" is no amount, such as "250m" or "200Mi"'
