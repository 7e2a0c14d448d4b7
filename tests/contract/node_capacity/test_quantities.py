# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Quantities as the API server itself has them."""

from __future__ import annotations

import random

from ansible_collections.colocation.kubernetes.plugins.module_utils._quantity import Quantity, parse_quantity
from ansible_collections.colocation.kubernetes.tests.contract.node_capacity.conftest import Nodes

SUFFIXES = [
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e3",
    "E2",
    "e-2",
    "e+4",
]


def as_capacity(text: str) -> str:
    """In a list of resources the server rounds up to thousandths, whatever the resource."""
    quantity = parse_quantity(text)
    return str(Quantity(-(-quantity.nano // 10**6) * 10**6, quantity.style))


def test_the_canonical_form_is_the_servers(nodes: Nodes) -> None:
    """Keys without a prefix may have fractions, so every writing can be tried."""
    [node] = nodes.make("a")
    source = random.Random(7)
    texts: list[str] = []
    while len(texts) < 600:
        digits = str(source.randrange(10 ** source.randrange(1, 10))) + "0" * source.randrange(4)
        fraction = source.choice(["", "", ".5", ".25", ".0", f".{source.randrange(10**6)}"])
        text = digits + fraction + source.choice(SUFFIXES)
        if parse_quantity(text).value < 1 << 60:  # beyond it the server's own form is not exact
            texts.append(text)
    wanted = {f"q{place}": text for place, text in enumerate(texts)}
    nodes.client.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": wanted}})
    found = nodes.client.get(f"/api/v1/nodes/{node}")["status"]["capacity"]
    # Some texts with a fraction are written back as they came: the server keeps them beside the amount.
    told = {text: found[key] for key, text in wanted.items() if "." not in text or found[key] != text}
    assert len(told) > 400 and told == {text: as_capacity(text) for text in told}
