# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The play itself, by ansible-playbook over a made inventory: every host is this machine or a closed port.

What preflight thinks of this machine is not the question here; what becomes of hosts that can't be asked is, and that
all of them stand in one report.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils import _findings
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import run_ansible
from ansible_collections.colocation.kubernetes.tests.contract.doubled_collection import dead_host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the made hosts are this machine as root")

PLAYBOOK = """\
- import_playbook: colocation.kubernetes.preflight
- name: A later play
  hosts: "kube_node{{ ':!preflight_unreachable' if 'preflight_unreachable' in groups else '' }}"
  gather_facts: false
  serial: 1
  tasks:
    - ansible.builtin.debug:
        msg: later on {{ inventory_hostname }}
"""
SUDO = '#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nPATH={path}\nexec "$@"\n'
CRASHING = f'#!/bin/sh\n[ "$1" = -c ] || {{ echo the disk is gone >&2; exit 1; }}\nexec {sys.executable} "$@"\n'
LOCAL: dict[str, Any] = {"ansible_connection": "local"}


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    output: str

    @property
    def report(self) -> list[str]:
        """The lines of the report as the default callback prints them."""
        found = re.search(r'"msg": (\[\n.*?\n    \])', self.output, re.DOTALL)
        assert found, self.output
        lines: list[str] = json.loads(found[1])
        return lines

    def told(self, check: str) -> str:
        """All that stands below one ID, in one line."""
        lines = self.report
        start = lines.index(f"  [{check}]")
        below = lines[start + 1 :]
        end = next((n for n, line in enumerate(below) if not line.startswith("    ")), len(below))
        return " ".join(" ".join(below[:end]).split())

    @property
    def later(self) -> list[str]:
        return re.findall(r"later on (\w+)", self.output)


class Site:
    """A directory with an inventory, a playbook and doubles of sudo and python3."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "site.yml").write_text(PLAYBOOK)

    def script(self, name: str, text: str) -> str:
        path = self.place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def become(self, name: str, text: str) -> dict[str, Any]:
        """A local host whose sudo is a script of ours."""
        return LOCAL | {"ansible_become_user": "another", "ansible_become_exe": self.script(name, text)}

    def path_with(self, name: str, **scripts: str) -> str:
        """A PATH with nothing but id and these."""
        for script, text in scripts.items():
            self.script(f"{name}/{script}", text)
        (self.place / name).mkdir(exist_ok=True)
        (self.place / name / "id").symlink_to("/usr/bin/id")
        return str(self.place / name)

    def skewed(self, seconds: int) -> dict[str, Any]:
        """A local host whose Python has another clock."""
        self.script(
            "clock/sitecustomize.py", f"import time\nreal = time.time\ntime.time = lambda: real() + {seconds}\n"
        )
        wrapper = f'#!/bin/sh\nPYTHONPATH={self.place}/clock exec {sys.executable} "$@"\n'
        return LOCAL | {"ansible_python_interpreter": self.script("python-skewed", wrapper)}

    def run(self, groups: dict[str, dict[str, dict[str, Any]]], *arguments: str, **variables: Any) -> Run:
        inventory = {"all": {"children": {group: {"hosts": hosts} for group, hosts in groups.items()}}}
        (self.place / "inventory.json").write_text(json.dumps(inventory))
        return Run(
            *run_ansible(
                self.place,
                "ansible-playbook",
                f"--inventory={self.place / 'inventory.json'}",
                f"--extra-vars={json.dumps(variables)}",
                *arguments,
                str(self.place / "site.yml"),
            )
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def dead() -> dict[str, Any]:
    return dead_host()


def test_all_that_is_wrong_is_told_at_once(site: Site, dead: dict[str, Any]) -> None:
    old = "#!/bin/sh\necho 3.9.2\n"
    hosts = {
        "a_dead": dead,  # the first host: the report must not depend on it
        "bare": site.become("sudo-bare", SUDO.format(path=site.path_with("nothing"))),
        "crashing": LOCAL | {"ansible_python_interpreter": site.script("python-crashing", CRASHING)},
        "hung": site.become("sudo-hung", "#!/bin/sh\nexec sleep 20\n"),
        "mistyped": LOCAL | {"preflight_clock_skew_limit": "much"},
        "old": site.become("sudo-old", SUDO.format(path=site.path_with("outdated", python3=old))),
        "refused": site.become("sudo-refused", "#!/bin/sh\necho a password is required >&2\nexit 1\n"),
        "skewed": site.skewed(-3600),
        "wrong": LOCAL | {"ansible_python_interpreter": "/nowhere/python3"},
        "w01": LOCAL,
        "w02": LOCAL,
        "w03": LOCAL,
    }
    groups = {"kube_node": hosts, "kube_control_plane": {"cp": LOCAL}}
    run = site.run(groups, preflight_timeout=10)
    assert run.status != 0
    assert run.later == []
    assert run.report[0].startswith("preflight looked at 13 hosts: ")
    assert run.told("unreachable").startswith("a_dead: Failed to connect to the host via ssh")
    assert run.told("python-missing").startswith("bare: no python3 is there -> Install python3")
    assert re.match(r"crashing: .*the disk is gone", run.told("facts-failed"))
    assert run.told("host-hangs").startswith("hung: a shell command got no answer: Timed out after 10 second(s)")
    assert run.told("not-looked-at").startswith("mistyped: ")
    assert "'preflight_clock_skew_limit' is of type str" in run.output
    assert re.match(
        r"old: no Python of 3\.10 or later; found: \S+/outdated/python3 \(3\.9\.2\)", run.told("python-old")
    )
    assert run.told("no-root").startswith("refused: we are not root: a password is required")
    assert re.match(r"skewed: the clock is 3[56]\d\d\.\d s behind the controller's", run.told("clock-skew"))
    assert run.told("python-interpreter").startswith("wrong: ansible_python_interpreter is /nowhere/python3")
    assert run.told("node-name-twice").startswith("skewed, w[01-03] (4 hosts): the node name ")
    assert "preflight found " in run.output


def test_a_gpu_driver_that_hangs_or_fails_stands_in_the_report(site: Site) -> None:
    def host(name: str, smi: str) -> dict[str, Any]:
        site.script(f"{name}/nvidia-smi", f"#!/bin/sh\n{smi}\n")
        return site.become(f"sudo-{name}", SUDO.format(path=f"{site.place}/{name}:$PATH"))

    nodes = {"hangs": host("hangs", "exec sleep 100"), "fails": host("fails", "echo no NVML; exit 18")}
    nodes["well"] = host("well", "echo 81920")
    run = site.run({"kube_node": nodes}, preflight_timeout=15, device_plugin_resources={"gpu": {"a.b/c": {}}})
    assert run.status != 0
    told = run.told("gpu-driver")
    assert re.search(r"hangs: nvidia-smi got no answer: .*Timed out after 15 second\(s\)", told, re.IGNORECASE)
    assert "fails: nvidia-smi failed: no NVML" in told
    assert "well: " not in told


def test_check_mode_tells_the_same_and_limit_narrows(site: Site, dead: dict[str, Any]) -> None:
    groups = {"kube_node": {"bad": dead, "good": LOCAL}, "kube_control_plane": {"cp": LOCAL}}
    real, check = site.run(groups), site.run(groups, "--check")
    assert real.report == check.report
    assert (real.status, check.status) == (2, 2)
    limited = site.run(groups, "--limit=cp", preflight_skip=sorted(_findings.CHECKS))
    assert limited.status == 0
    assert limited.report[0].startswith("preflight looked at 1 host: 0 errors")
    assert "changed=0" in limited.output
    assert "changed=1" not in real.output + check.output + limited.output


def test_hosts_that_do_not_answer_are_left_out_where_allowed(site: Site, dead: dict[str, Any]) -> None:
    groups = {"kube_node": {"bad": dead, "w1": LOCAL, "w2": LOCAL}, "kube_control_plane": {"cp": LOCAL}}
    skip = sorted(set(_findings.CHECKS) - {"unreachable"})
    refused = site.run(groups, preflight_skip=skip)
    assert (refused.status, refused.later) == (2, [])
    assert refused.report[0].startswith("preflight looked at 4 hosts: 1 error, ")
    allowed = site.run(groups, preflight_skip=skip, preflight_allow_unreachable="yes")
    assert (allowed.status, sorted(set(allowed.later))) == (0, ["w1", "w2"])
    assert allowed.told("unreachable").startswith("bad: ")


@pytest.mark.parametrize("groups", [{"kube_control_plane": {"cp": LOCAL}}, {"workers": {"w1": LOCAL}}])
def test_an_inventory_without_nodes_does_not_pass_for_a_good_one(
    site: Site, groups: dict[str, dict[str, dict[str, Any]]]
) -> None:
    run = site.run(groups)
    assert run.status != 0
    assert "The inventory has no host in the group kube_node" in run.output
