#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_health
short_description: Find what keeps a node from carrying pods, or will
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Runs on the node, as root, and looks once at everything that breaks nodes.
  - That is the kubelet (its unit, why it ends, its kubeconfig, certificates and configuration), containerd (its unit,
    its configuration, its cgroup driver, and whether it answers a call by CRI), swap now and after a reboot, cgroups,
    disks, processes, the clock against the API server's, the way to the API server, the Node there and its conditions,
    the network's configuration, what device plugins left behind, and the agents of this collection.
  - Each finding has an ID, a severity, what was seen, what to do, and which step of C(playbooks/repair.yml) mends it.
  - All parts are looked at side by side with a time limit each, so a node where half of it hangs is told about too.
    What could not be looked at is a finding itself, V(not-looked-at).
  - Agents that run are asked for their status on the loopback port that their configuration names.
  - The API server is asked with the kubelet's own identity, so no other right is needed.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  patience:
    description:
      - Seconds to look again while only time is needed, as far as can be seen. A kubelet that starts, or a Node that is
        not up to date yet, are such findings, and so is what could not be looked at in time.
    type: float
    default: 0
  taken:
    description:
      - Steps of the repair that were taken already. What they left is no reason to give up O(patience).
    type: list
    elements: str
    choices: [containerd, swap, kubelet, restart, rejoin]
    default: []
  part_timeout:
    description:
      - Seconds that each part of the look may take. A part that takes longer is left behind and told.
      - Parts run side by side in two rounds, so one look takes at most twice as long.
    type: float
    default: 20
  answer_timeout:
    description: Seconds that the API server and the container runtime may take for each answer.
    type: float
    default: 5
  certificate_days:
    description:
      - Warn when the kubelet's certificate ends in less than so many days. The kubelet renews it long before.
      - Certificates that live shortly count as ending in the last tenth of their time.
    type: float
    default: 14
  authority_days:
    description: Warn when the cluster's certificate authority ends in less than so many days.
    type: float
    default: 90
  clock_skew_limit:
    description: Seconds that the node's clock may differ from the API server's.
    type: float
    default: 5
  containerd_config:
    description: containerd's main configuration file.
    type: path
    default: /etc/containerd/config.toml
  state_dir:
    description: Where the roles keep their state, and a rejoin that was begun its mark.
    type: path
    default: /var/lib/colocation
seealso:
  - module: colocation.kubernetes.node_facts
  - module: colocation.kubernetes.kubelet_mend
"""

EXAMPLES = r"""
# Ad hoc: ansible localhost -m colocation.kubernetes.node_health

- name: See how a node is
  colocation.kubernetes.node_health:
  register: health

- name: Print it for people
  ansible.builtin.debug:
    msg: "{{ health.lines }}"

- name: Do something about one kind of finding
  ansible.builtin.debug:
    msg: "{{ item.evidence }}: {{ item.remedy }}"
  loop: "{{ health.findings | selectattr('id', 'match', 'kubelet-') }}"
  loop_control:
    label: "{{ item.id }}"

- name: Give a node that just booted a minute
  colocation.kubernetes.node_health:
    patience: 60
    certificate_days: 30
"""

RETURN = r"""
healthy:
  description: Whether nothing critical was found, and nothing that the repair could mend.
  returned: success
  type: bool
  sample: false
findings:
  description: All that was found, the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: What kind of finding it is.
      type: str
      sample: containerd-stopped
    severity:
      description:
        - V(critical) when pods can't run here, or can't after the next restart of the kubelet; V(warning) when the node
          works, but not for long or not well; V(notice) for what is good to know.
      type: str
      sample: critical
    evidence:
      description: What was seen on this node.
      type: str
      sample: containerd.service is inactive (dead)
    remedy:
      description: What to do.
      type: str
      sample: systemctl start containerd
    mendable:
      description: Whether C(playbooks/repair.yml) has a step for it.
      type: bool
      sample: true
    steps:
      description:
        - The steps of the repair that may mend it, in the order in which they are tried.
          V(containerd), V(swap), V(kubelet), V(restart) and V(rejoin).
      type: list
      elements: str
      sample: [containerd]
    passing:
      description: Whether time alone may mend it.
      type: bool
      sample: false
    unit:
      description: The unit whose start or restart mends it in the step V(restart); empty for all others.
      type: str
      sample: ""
steps:
  description: The steps that the repair would take now, as far as can be known.
  returned: success
  type: list
  elements: str
  sample: [containerd]
units:
  description: The units that the step V(restart) would start (C(start)), and those that it would restart (C(restart)).
  returned: success
  type: dict
  sample: {"start": [], "restart": ["kubelet.service"]}
summary:
  description: How much was found, in words; V(healthy) when there is nothing.
  returned: success
  type: str
  sample: 1 critical
lines:
  description: All findings as lines for people.
  returned: success
  type: list
  elements: str
node:
  description: The node's name in the API; empty where nothing tells.
  returned: success
  type: str
  sample: worker1
kubeconfig:
  description: The kubeconfig that the kubelet was told to use; empty where no kubelet is known.
  returned: success
  type: str
  sample: /etc/kubernetes/kubelet.conf
server:
  description: The API server's address, by the node's own files; empty where nothing tells.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
cgroup_driver:
  description: The kubelet's own cgroup driver or, where it takes containerd's, that one; empty where neither is known.
  returned: success
  type: str
  sample: systemd
kubelet_version:
  description: The kubelet's version; empty where there is none.
  returned: success
  type: str
  sample: 1.36.3
cni_records:
  description: Files in which CNI noted a pod's network and that can't be read, so that the pod never ends.
  returned: success
  type: list
  elements: str
  sample: []
agents:
  description: The agents of this collection on the node, by their units.
  returned: success
  type: list
  elements: dict
  contains:
    unit:
      description: The unit.
      type: str
      sample: colocation-device-plugin.service
    state:
      description: What systemd says of it.
      type: str
      sample: active
    release:
      description: The release that its next start takes; empty where there is none.
      type: str
      sample: 0.1.0-5b2c0f3a9d1e
    page:
      description:
        - Its own status, C(summary), C(problems), C(facts) and C(tables) among it, or C(problem) that says why there is
          none. V(null) for one that is not up.
      type: dict
certificate_days_left:
  description: Days until the kubelet's certificate ends; null where it has none.
  returned: success
  type: float
  sample: 289.4
authority_days_left:
  description: Days until the cluster's authority ends; null where its file is not there.
  returned: success
  type: float
  sample: 3289.4
"""

import functools
import time
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import days_left
from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_facts import Agent, HealthFacts
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_findings import STEPS, Finding
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_judge import Want, judge
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_judge_services import driver_in_use
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_ladder import (
    foretell,
    is_healthy,
    should_wait,
    units_of,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_parts import (
    STATE_DIR,
    Limits,
    Outside,
    look,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_report import node_lines, plain, summary
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_containerd import CONFIG

ROOT = "/"
PAUSE = 2.0
COMMAND_SHARE = 0.75

ARGUMENTS = {
    "patience": {"type": "float", "default": 0},
    "taken": {"type": "list", "elements": "str", "choices": list(STEPS), "default": []},
    "part_timeout": {"type": "float", "default": 20},
    "answer_timeout": {"type": "float", "default": 5},
    "certificate_days": {"type": "float", "default": 14},
    "authority_days": {"type": "float", "default": 90},
    "clock_skew_limit": {"type": "float", "default": 5},
    "containerd_config": {"type": "path", "default": CONFIG},
    "state_dir": {"type": "path", "default": STATE_DIR},
}


def examine(params, outside: Outside) -> tuple[HealthFacts, list[Finding]]:
    """One look or, with patience, as many as time may mend what is found."""
    want = Want(params["certificate_days"], params["authority_days"], params["clock_skew_limit"])
    limits = Limits(params["part_timeout"], params["answer_timeout"])
    end = time.monotonic() + params["patience"]
    while True:
        facts = look(ROOT, outside, limits, params["containerd_config"], params["state_dir"])
        findings = judge(facts, want)
        if not should_wait(findings, params["taken"]) or time.monotonic() >= end:
            return facts, findings
        time.sleep(PAUSE)


def answer(facts: HealthFacts, findings: list[Finding]) -> dict:
    kubelet, files = facts.kubelet, facts.files
    own = files.current if files and files.by_certificate else None
    return {
        "healthy": is_healthy(findings),
        "findings": [{**asdict(finding), "mendable": finding.mendable} for finding in findings],
        "steps": foretell(findings),
        "units": units_of(findings),
        "summary": summary(findings),
        "lines": [plain(line) for line in [summary(findings), *node_lines(findings)]],
        "node": facts.node.name if facts.node else "",
        "kubeconfig": kubelet.kubeconfig if kubelet else "",
        "server": facts.api.server if facts.api else kubelet.server if kubelet else "",
        "cgroup_driver": driver_in_use(facts),
        "kubelet_version": kubelet.version if kubelet else "",
        "cni_records": list(facts.network.broken_records) if facts.network else [],
        "agents": [told(agent) for agent in facts.agents],
        "certificate_days_left": days_left(own.validity if own else None, facts.now),
        "authority_days_left": days_left(files.authority_validity if files else None, facts.now),
    }


def told(agent: Agent) -> dict:
    unit = agent.service.unit
    return {
        "unit": unit.name if unit else "",
        "state": unit.active if unit else "",
        "release": agent.release,
        "page": asdict(agent.page) if agent.page else None,
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    for name in ("part_timeout", "answer_timeout"):
        if module.params[name] <= 0:
            module.fail_json(msg=f"{name} is {module.params[name]:g}; it must be more than 0 seconds")
    # Less than its part has, so that a command that hangs is named and killed, and not left behind.
    run = functools.partial(run_for, seconds=module.params["part_timeout"] * COMMAND_SHARE)
    facts, findings = examine(module.params, Outside(run))
    module.exit_json(changed=False, **answer(facts, findings))


if __name__ == "__main__":
    main()
