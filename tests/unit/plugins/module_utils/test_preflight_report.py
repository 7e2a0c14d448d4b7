# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import (
    CHECKS,
    ERROR,
    LEVELS,
    MENDED,
    WARNING,
    Finding,
    demote,
    found,
    unknown_names,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_cluster import (
    HostResult,
    all_findings,
    not_looked_at,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._preflight_report import host_list, make_report

GROUPS = {"kube_node": ["w1"], "kube_control_plane": ["cp"]}


def result(host: str, node_name: str = "", machine_id: str = "", version: str = "", *findings: Finding) -> HostResult:
    return HostResult(host, node_name, machine_id, version, findings)


# The table


def test_the_table_says_what_to_do() -> None:
    for check, entry in CHECKS.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check)
        assert entry.level in LEVELS
        assert entry.todo.endswith((".", "node_facts"))
        assert (entry.level == MENDED) == ("The role " in entry.todo)


def test_only_errors_of_that_name_are_demoted() -> None:
    findings = [found("clock-skew", "x"), found("swap-on", "y"), found("disk-space", "z")]
    assert [finding.level for finding in demote(findings, ["clock-skew", "swap-on"])] == [WARNING, MENDED, ERROR]


def test_a_misspelt_name_is_an_error_with_the_nearest() -> None:
    assert [finding.what for finding in unknown_names(["clock-skew", "clock-screw", "qqqq"])] == [
        "preflight_skip has clock-screw, which is no check; did you mean clock-skew?",
        "preflight_skip has qqqq, which is no check",
    ]


# Over all hosts


@pytest.mark.parametrize(
    ("groups", "findings"),
    [
        (GROUPS, []),
        ({"kube_node": ["a"]}, [("group-kube-control-plane", WARNING)]),
        ({"kube_control_plane": ["a"], "kube_node": []}, [("group-kube-node", ERROR)]),
        ({}, [("group-kube-node", ERROR), ("group-kube-control-plane", WARNING)]),
    ],
)
def test_groups(groups: dict[str, list[str]], findings: list[tuple[str, str]]) -> None:
    assert [(finding.id, finding.level) for _host, finding in all_findings([], groups)] == findings


def test_names_and_machine_ids_must_differ() -> None:
    hosts = [result("a", "n1", "m1"), result("b", "n1", "m2"), result("c", "n2", "m2"), result("d"), result("e")]
    assert [(host, finding.id) for host, finding in all_findings(hosts, GROUPS)] == [
        ("a", "node-name-twice"),
        ("b", "node-name-twice"),
        ("b", "machine-id-twice"),
        ("c", "machine-id-twice"),
    ]


def test_findings_over_all_hosts_can_be_skipped() -> None:
    findings = all_findings([], {}, ["group-kube-node"])
    assert {finding.level for _host, finding in findings} == {WARNING}


def test_kubelets_too_far_apart() -> None:
    hosts = [result("a", version="1.36.3"), result("b", version="1.33.0"), result("c", version="1.32.9"), result("d")]
    assert [(host, finding.id) for host, finding in all_findings(hosts, GROUPS)] == [("c", "kubelet-versions")]


def test_a_host_that_fell_out_is_an_error() -> None:
    assert [(host, finding.id, finding.level) for host, finding in all_findings([not_looked_at("a")], GROUPS)] == [
        ("a", "not-looked-at", ERROR)
    ]


# The report


def test_nothing_wrong() -> None:
    assert make_report([], 3).lines == ("preflight looked at 3 hosts: nothing is wrong",)


def test_one_fault_of_many_hosts_is_one_entry() -> None:
    report = make_report([(f"w{n:03d}", found("disk-read-only", "/var is read-only")) for n in range(1, 201)], 200)
    assert report.lines == (
        "preflight looked at 200 hosts: 200 errors, 0 mended by a later role, 0 warnings",
        "",
        "ERRORS: no role mends these, so nothing was changed",
        "  [disk-read-only]",
        "    w[001-200] (200 hosts): /var is read-only",
        f"    -> {CHECKS['disk-read-only'].todo}",
    )


def test_levels_have_sections_and_figures_stay_with_their_hosts() -> None:
    report = make_report(
        [
            ("a", found("swap-on", "swap is on: /dev/sda2")),
            ("b", found("disk-space", "/var has 7 MiB")),
            ("c", found("disk-space", "/var has 9 MiB")),
        ],
        3,
    )
    text = "\n".join(report.lines)
    assert re.search(
        r"ERRORS.*\[disk-space\]\n +b: /var has 7 MiB\n +c: /var has 9 MiB\n.*MENDED.*a: swap is on", text, re.S
    )
    assert report.summary == "2 errors, 1 mended by a later role, 0 warnings"


def test_a_check_with_two_pieces_of_advice_has_two_entries() -> None:
    own = found("api-unreachable", "127.0.0.1 does not answer", level=MENDED, todo="The role node_prep mends it.")
    text = "\n".join(make_report([("a", own), ("b", found("api-unreachable", "10.0.0.1 does not answer"))], 2).lines)
    assert text.count("[api-unreachable]") == 2


def test_many_different_figures_are_cut_but_no_host_is_lost() -> None:
    report = make_report([(f"n{n:02d}", found("disk-space", f"/var has {n} MiB")) for n in range(20)], 20)
    assert "    n[05-19] (15 hosts): the same in other words or figures" in report.lines


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["a"], "a"),
        (["w1", "w2"], "w1, w2 (2 hosts)"),
        (["w3", "w1", "w2"], "w[1-3] (3 hosts)"),
        (["w8", "w9", "w10", "w11", "w12"], "w8, w9, w[10-12] (5 hosts)"),
        (["w01.example.org", "w02.example.org", "w03.example.org"], "w[01-03].example.org (3 hosts)"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3", "db"], "10.0.0.[1-3], db (4 hosts)"),
        (["w1", "w1"], "w1"),
    ],
)
def test_host_lists(hosts: list[str], text: str) -> None:
    assert host_list(hosts) == text


host_names = st.from_regex(r"[a-z0-9]{1,3}[a-z0-9.-]{0,3}[0-9]{0,3}[a-z.]{0,3}", fullmatch=True)


@given(st.lists(host_names, min_size=1))
def test_a_host_list_says_the_same_hosts(hosts: list[str]) -> None:
    text = re.sub(r" \(\d+ hosts\)$", "", host_list(hosts))
    expanded = set()
    for part in text.split(", "):
        ranged = re.fullmatch(r"(.*)\[(\d+)-(\d+)\](.*)", part)
        if ranged:
            first, last = ranged[2], ranged[3]
            numbers = range(int(first), int(last) + 1)
            expanded |= {f"{ranged[1]}{number:0{len(first)}d}{ranged[4]}" for number in numbers}
        else:
            expanded.add(part)
    assert expanded == set(hosts)


findings = st.builds(found, st.sampled_from(sorted(CHECKS)), st.text(max_size=300))


@given(st.lists(st.tuples(host_names, findings)))
def test_every_finding_is_counted_and_every_line_prints_as_it_is(told: list[tuple[str, Finding]]) -> None:
    report = make_report(told, 5)
    assert report.errors + report.mended + report.warnings == len(told)
    text = "\n".join(report.lines)
    for _host, finding in told:
        assert f"[{finding.id}]" in text
    assert not set(text) & {'"', "\\"}
    assert all("\n" not in line for line in report.lines)
