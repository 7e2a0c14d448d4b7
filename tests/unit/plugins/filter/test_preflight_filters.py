# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The filters as Ansible calls them; what they decide is tested where it is decided."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.colocation.kubernetes.plugins.filter import (
    preflight_findings,
    preflight_python,
    preflight_report,
)

EXPECTED: dict[str, Any] = {
    "host": "w1",
    "is_worker": True,
    "is_control_plane": False,
    "systems": {},
    "clock_skew_limit": 5.0,
    "disk_free_mib": {},
    "swap": "disable",
    "install_containerd": True,
    "repair_containerd": False,
    "cgroup_driver": "systemd",
    "agents_as_kubelet": True,
    "allow_unreachable": False,
}
GROUPS = {"kube_node": ["w1", "w2"], "kube_control_plane": ["cp"]}


def probe(uid: int) -> dict[str, Any]:
    return {"stdout": f"preflight:uid {uid}\npreflight:python /usr/bin/python3 3.13.5\npreflight:end\n"}


@pytest.mark.parametrize(
    ("result", "path"), [(probe(0), "/usr/bin/python3"), (probe(1000), ""), ({"unreachable": True, "msg": "x"}, "")]
)
def test_no_python_without_root(result: dict[str, Any], path: str) -> None:
    python = preflight_python.FilterModule().filters()["preflight_python"]
    assert python(result) == path


def test_findings_of_one_host_go_into_the_report_of_all() -> None:
    findings = preflight_findings.FilterModule().filters()["preflight_findings"]
    report = preflight_report.FilterModule().filters()["preflight_report"]
    result = findings({"unreachable": True, "msg": "no route"}, {"skipped": True}, EXPECTED)
    told = report({"w1": result, "w2": {}}, GROUPS)
    assert (told["errors"], told["mended"], told["warnings"]) == (2, 0, 0)
    assert [(finding["host"], finding["id"]) for finding in told["findings"]] == [
        ("w1", "unreachable"),
        ("w2", "not-looked-at"),
    ]
    assert "    w1: no route" in told["lines"]
    assert told["summary"] == "2 errors, 0 mended by a later role, 0 warnings"


def test_skipped_findings_are_warnings() -> None:
    findings = preflight_findings.FilterModule().filters()["preflight_findings"]
    result = findings({"unreachable": True}, {}, EXPECTED, ["unreachable"])
    assert [finding["level"] for finding in result["findings"]] == ["warning"]
    report = preflight_report.FilterModule().filters()["preflight_report"]
    assert report({}, {"kube_control_plane": ["cp"]}, ["group-kube-node"])["errors"] == 0


def test_a_variable_of_the_wrong_form_is_named() -> None:
    findings = preflight_findings.FilterModule().filters()["preflight_findings"]
    with pytest.raises(AnsibleFilterError, match=r"systems\[debian\]\[0\]: str is wanted, not 12"):
        findings(probe(0), {}, EXPECTED | {"systems": {"debian": [12]}})


def test_results_of_another_form_are_refused() -> None:
    report = preflight_report.FilterModule().filters()["preflight_report"]
    with pytest.raises(AnsibleFilterError, match="HostResult: without"):
        report({"w1": {"host": "w1"}}, GROUPS)
