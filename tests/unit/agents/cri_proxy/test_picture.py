# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The machine drawn: each container once, where all of its CPUs are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.machines import MACHINES, machine
from colocation.common.status import Status, Table
from colocation.common.status_page import to_html
from colocation.cri_proxy.cpus import parse, show
from colocation.cri_proxy.picture import (
    COLUMNS,
    CONTAINERS,
    Shown,
    drawn,
    shown_in,
    summary,
    to_json,
    to_svg,
    to_text,
)

SHOWN = [
    Shown("default/one/main", parse("0-3,32-35"), 6, "online"),
    Shown("default/two/main", parse("8-15,40-47"), 12, "batch"),
    Shown("default/three/main", parse("0-11,32-43"), 20, "online"),
    Shown("default/four/main", parse("0-63"), 50, "online"),
    Shown("default/five/main", parse("4,36"), 2, "exclusive"),
]


def names(part: dict[str, Any]) -> list[str]:
    return [one["name"].split("/")[1] for one in part["containers"]]


def test_a_terminal_shows_each_where_it_stands() -> None:
    lines = to_text(machine("hygon-c86"), SHOWN).splitlines()
    assert lines[0] == "2 sockets, 4 NUMA nodes, 8 CCXes, 64 CPUs"
    assert lines[1] == "  • default/four/main  50 CPU  0-63"
    assert lines[2:5] == [
        "socket 0",
        "│   • default/three/main  20 CPU  0-11,32-43",
        "├── NUMA 0  64.0 GiB  CPUs 0-7,32-39",
    ]
    assert lines[5].startswith("│   ├── CCX 0  L3 8 MiB  CPUs 0-3,32-35  ")
    assert lines[6] == "│   │     • default/one/main  6 CPU  0-3,32-35"
    assert sum("•" in line for line in lines) == len(SHOWN)


def test_the_bar_counts_the_part_of_each_that_is_there() -> None:
    text = to_text(machine("hygon-c86"), SHOWN[:1])
    assert "████████████░░░░ 6 of 8 asked" in text
    assert "░" * 16 + " 0 of 8 asked" in text
    assert "█" * 16 + " 16 of 8 asked" in to_text(machine("hygon-c86"), [Shown("x", parse("0"), 16, "online")])


def test_json_is_the_tree() -> None:
    document = json.loads(to_json(machine("hygon-c86"), SHOWN))
    assert names(document) == ["four"]
    socket = document["sockets"][0]
    assert names(socket) == ["three"] and names(socket["numas"][1]) == ["two"]
    assert [names(ccx) for ccx in socket["numas"][0]["ccxs"]] == [["one"], ["five"]]
    assert socket["numas"][0]["ccxs"][0]["cores"] == ["0,32", "1,33", "2,34", "3,35"]


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_can_be_drawn(name: str) -> None:
    found = machine(name)
    assert summary(found) in to_svg(found, SHOWN)
    drawing = ElementTree.fromstring(to_svg(found, SHOWN))
    boxes = [one.get("class") for one in drawing.iter("{http://www.w3.org/2000/svg}rect")]
    assert (boxes.count("numa"), boxes.count("ccx")) == (len(found.numas), len(found.ccxs))
    assert to_text(found, []).count("CCX ") >= len(found.ccxs)
    assert json.loads(to_json(found, []))["containers"] == []


def test_names_can_do_no_harm() -> None:
    wicked = [Shown("<script>\x1b[31m", parse("0"), 1, "online")]
    assert "<script>" not in to_svg(machine("one-cpu"), wicked)
    assert "\x1b" not in to_text(machine("one-cpu"), wicked)
    ElementTree.fromstring(to_svg(machine("one-cpu"), wicked))


def test_colors_are_only_for_terminals() -> None:
    assert "\x1b[33m" in to_text(machine("hygon-c86"), SHOWN, color=True)
    assert "\x1b" not in to_text(machine("hygon-c86"), SHOWN)


def test_containers_come_from_the_running_agents_status() -> None:
    rows = (("default/one/main", "0-3", None, "ccx", 1.5, "online"),)
    status = Status("cri-proxy", "1", "", tables=(Table(CONTAINERS, COLUMNS, rows), Table("Other", ("a",), (("b",),))))
    assert shown_in(status) == [Shown("default/one/main", parse("0-3"), 1.5, "online")]


def test_the_page_has_the_machine_with_the_status_containers_on_it() -> None:
    rows = tuple((one.name, show(one.cpus), None, "ccx", one.asked, one.kind) for one in SHOWN)
    status = Status("cri-proxy", "1", "5 containers", tables=(Table(CONTAINERS, COLUMNS, rows),))
    found = machine("hygon-c86")
    html = to_html(replace(status, drawing=lambda: drawn(found, status)))
    drawing = html[html.index("<svg") : html.index("</svg>") + len("</svg>")]
    texts = [element.text for element in ElementTree.fromstring(drawing).iter() if element.text]
    assert summary(found) in texts
    assert {f"{one.name} · {one.asked:g} CPU" for one in SHOWN} <= set(texts)
