#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_service
short_description: One agent of a node, in a wanted release, configuration and unit, and healthy
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Brings an agent to a release, a configuration and a unit in one transaction. The wanted release judges the new
    configuration before anything is changed. Then the intent and a copy of what stands are recorded, the files written,
    C(current) linked to the release, and the agent restarted only when its own code, its configuration or its unit
    changed against what its process really runs.
  - It is healthy when systemd has it active and ready, its page answers 200, and it stayed so for O(settle) seconds
    without a crash. If it does not get there, the former configuration, unit and release are put back and the agent
    restarted; the task still fails, with the reason, the journal of the failed start and what was taken back. A first
    installation that does not get healthy is removed again.
  - A run that was killed anywhere is finished by the next, or taken back to what stood before the first of them.
  - Files and the unit's state go to the ledger, so that M(colocation.kubernetes.node_restore) puts back what stood
    before.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
attributes:
  check_mode:
    support: full
    details: Where the release is not on the node yet, another release than the running one counts as changed code.
  diff_mode:
    support: full
    details: The unit, the configuration, where C(current) leads, and a restart with its reasons.
  idempotent:
    support: full
options:
  name:
    description: The agent, as C(RELEASE.json) of a release names it.
    type: str
    required: true
  state:
    description:
      - V(started) brings the agent to what is wanted. The other options with a content are needed then.
      - V(absent) stops and disables it and removes its unit, configuration, sockets and record. What somebody edited
        stays and is reported in RV(kept).
    type: str
    choices: [started, absent]
    default: started
  unit:
    description: Name of its service.
    type: str
    required: true
  unit_content:
    description: The unit's file. It runs in C(current) and is of type notify.
    type: str
  config:
    description: Path of its configuration.
    type: path
  config_content:
    description: The configuration. It is shown in diffs, so it may hold no secret.
    type: str
  config_mode:
    description: Permissions of the configuration in octal, as a string.
    type: str
    default: "0600"
  release:
    description: Id of the release to run, which is at C(releases/<id>) in O(home) already.
    type: str
  check_command:
    description:
      - The command that judges a configuration, run in the release's folder; C({config}) stands for the file.
    type: list
    elements: str
  health_url:
    description: Where the agent tells that it is healthy.
    type: str
  timeout:
    description: Seconds that the agent may take to get healthy, and to stop.
    type: int
    default: 60
  settle:
    description: Seconds that a started agent has to stay healthy without a crash.
    type: int
    default: 5
  sockets:
    description:
      - Patterns of paths where the agent makes sockets. With O(state=absent), sockets that a killed agent left there
        are removed, and links to them. One that somebody serves, or that is not named as an agent's, is left.
    type: list
    elements: str
    default: []
  resources:
    description:
      - Extended resources that come with the agent. They are noted, because the kubelet keeps them in the Node when the
        agent has gone; M(colocation.kubernetes.node_capacity) removes them there.
    type: list
    elements: str
    default: []
  code_sha256:
    description: Hash of the agent's code in O(release), with which check mode is exact before the release is there.
    type: str
    default: ""
  home:
    description: Directory of the releases and of C(current).
    type: path
    default: /opt/colocation
  owner:
    description: The name under which the ledger keeps the entries, usually a role's. Without it, O(name).
    type: str
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: The device plugin runs in the release that the role agent_runtime brought
  colocation.kubernetes.agent_service:
    name: device_plugin
    unit: colocation-device-plugin.service
    unit_content: "{{ lookup('ansible.builtin.template', 'colocation-device-plugin.service.j2') }}"
    config: /etc/colocation/device-plugin.yaml
    config_content: "{{ {'mock': {'mock.com/gpu': 10}} | to_nice_yaml }}"
    release: "{{ agent_runtime_release }}"
    check_command:
      - "{{ agent_runtime_interpreter }}"
      - -EsB
      - -m
      - colocation.device_plugin
      - --config
      - "{config}"
      - --check-config
    health_url: http://127.0.0.1:9461/healthz

- name: It goes
  colocation.kubernetes.agent_service:
    name: device_plugin
    unit: colocation-device-plugin.service
    state: absent
    sockets: [/var/lib/kubelet/device-plugins/*.sock]
"""

RETURN = r"""
restarted:
  description: Whether a new process was started.
  returned: O(state=started)
  type: bool
reasons:
  description: Why it was started, each a sentence.
  returned: O(state=started)
  type: list
  elements: str
  sample: [its code changes]
rolled_back:
  description: Whether what stood before was put back. V(true) only when the task fails.
  returned: O(state=started)
  type: bool
downtime:
  description: Seconds from the order to restart a running agent until it was healthy.
  returned: O(state=started)
  type: float
  sample: 1.8
release_before:
  description: The release to which C(current) led; empty for none.
  returned: O(state=started)
  type: str
  sample: 0.1.0-5b2c0f3a9d1e
release_after:
  description: The wanted release.
  returned: O(state=started)
  type: str
  sample: 0.1.0-77ad0c64b8f2
removed:
  description: What was removed or put back, each a kind and a name.
  returned: O(state=absent)
  type: list
  elements: str
  sample: [unit colocation-device-plugin.service, file /etc/colocation/device-plugin.yaml]
resources:
  description: Extended resources that agents of this node ever had; they may still be in the Node.
  returned: success
  type: list
  elements: str
  sample: [mock.com/gpu]
kept:
  description: What was left, with the reason, because somebody changed it.
  returned: O(state=absent)
  type: list
  elements: str
  sample: []
"""

import contextlib
import os
import re
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_absent import Removal, take_away
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_gate import ask_health
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_record import Busy, RecordStore
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_service import (
    Agent,
    AgentError,
    Node,
    Outcome,
    SwitchFailed,
    bring_up,
    noted_resources,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._directory_lock import LOCK_SECONDS
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError, full_name

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["started", "absent"], "default": "started"},
    "unit": {"type": "str", "required": True},
    "unit_content": {"type": "str"},
    "config": {"type": "path"},
    "config_content": {"type": "str"},
    "config_mode": {"type": "str", "default": "0600"},
    "release": {"type": "str"},
    "check_command": {"type": "list", "elements": "str"},
    "health_url": {"type": "str"},
    "timeout": {"type": "int", "default": 60},
    "settle": {"type": "int", "default": 5},
    "sockets": {"type": "list", "elements": "str", "default": []},
    "resources": {"type": "list", "elements": "str", "default": []},
    "code_sha256": {"type": "str", "default": ""},
    "home": {"type": "path", "default": "/opt/colocation"},
    "owner": {"type": "str"},
    **STATE_DIR,
}
NEEDED = ["unit_content", "config", "config_content", "release", "check_command", "health_url"]
PROC = "/proc"  # tests put a directory here


def wanted(params: dict) -> Agent:
    """The agent in the parameters; ValueError for a mode that is none."""
    if not re.fullmatch("0?[0-7]{3}", params["config_mode"]):
        raise ValueError(f"config_mode: {params['config_mode']!r} is not an octal mode such as '0600'")
    if os.path.basename(params["release"]) != params["release"]:
        raise ValueError(f"release: {params['release']!r} is not the id of a release")
    return Agent(
        name=params["name"],
        unit=full_name(params["unit"]),
        unit_content=params["unit_content"].encode(),
        config=params["config"],
        config_content=params["config_content"].encode(),
        config_mode=int(params["config_mode"], 8),
        release=params["release"],
        check=tuple(params["check_command"]),
        health=params["health_url"],
        timeout=params["timeout"],
        settle=params["settle"],
        code=params["code_sha256"],
        resources=tuple(params["resources"]),
    )


def facts(outcome: Outcome, rolled_back: bool = False) -> dict:
    """The module's answer."""
    return {
        "changed": outcome.changed,
        "restarted": outcome.restarted,
        "reasons": list(outcome.reasons),
        "rolled_back": rolled_back,
        "downtime": outcome.downtime,
        "release_before": outcome.release_before,
        "release_after": outcome.release_after,
        **({"diff": outcome.diff} if outcome.diff else {}),
    }


def start(module: AnsibleModule, node: Node) -> None:
    """What the state started asks for."""
    agent = wanted(module.params)
    try:
        with contextlib.nullcontext() if module.check_mode else node.store.locked(LOCK_SECONDS):
            outcome = bring_up(agent, node, module.tmpdir)
    except SwitchFailed as failure:
        module.fail_json(msg=str(failure), **facts(failure.outcome, failure.rolled_back))
    module.exit_json(**facts(outcome), resources=noted_resources(module.params["state_dir"]))


def remove(module: AnsibleModule, away: Callable[[], Removal], node: Node) -> None:
    """What the state absent asks for. Where no agent ever was, there is no other run to keep out."""
    none_yet = not os.path.isdir(node.store.directory)
    with contextlib.nullcontext() if module.check_mode or none_yet else node.store.locked(LOCK_SECONDS):
        removal = away()
        resources = noted_resources(module.params["state_dir"])
    report = removal.report
    lines = {
        "removed": [f"{line['kind']} {line['name']}" for line in report.restored]
        + [f"socket {path}" for path in removal.sockets],
        "kept": [f"{line['kind']} {line['name']}: {line['reason']}" for line in report.kept + report.refused],
        "resources": resources,
    }
    for sentence in lines["kept"]:
        module.warn(f"Left as it is: {sentence}")
    if report.problems:
        module.fail_json(msg="\n".join(report.problems), changed=removal.changed, **lines)
    module.exit_json(changed=removal.changed, **lines, **({"diff": report.diff} if report.diff else {}))


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS, required_if=[("state", "started", NEEDED)], supports_check_mode=True
    )
    params = module.params
    systemd = Systemd(runner(module.run_command))
    ledger = Ledger(params["state_dir"], params["owner"] or params["name"], module.check_mode)
    store = RecordStore(params["state_dir"], params["name"])

    def away() -> Removal:
        return take_away(params["unit"], systemd, ledger, store, params["sockets"], params["timeout"])

    node = Node(systemd, ledger, store, params["home"], ask_health, PROC, lambda: away().report.problems)
    try:
        if params["state"] == "started":
            start(module, node)
        else:
            remove(module, away, node)
    except (AgentError, Busy, UnitError, LedgerError, ValueError) as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, params["state_dir"]))


if __name__ == "__main__":
    main()
