#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_rejoin_host
short_description: What is done on a worker node so that it leaves its cluster and joins it anew
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - The half of a rejoin that is done on the node, as root. The other half, through the API, is
    M(colocation.kubernetes.node_rejoin).
  - The role P(colocation.kubernetes.rejoin#role) calls the steps of both in order; use that.
  - Nothing is deleted before the kernel says that the kubelet and all pods have ended, and that nothing is mounted
    beneath C(/var/lib/kubelet). So what lies in a volume stays.
  - The token goes into a file for root alone in memory, which is removed when kubeadm has ended.
  - Needs nothing on the node but Python, kubeadm and containerd.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.rejoin_files
attributes:
  check_mode:
    support: full
    details: V(look) and V(journal) change nothing. The other steps say only that they would change something.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  step:
    description:
      - V(look) finds the host's state and the files that a reset would lose.
      - V(stop) stops the kubelet, the agents and all pods, and unmounts volumes.
      - V(reset) runs C(kubeadm reset) and removes what that leaves, as C(/etc/cni/net.d), C(/var/lib/cni) and the state
        of device plugins.
      - V(join) puts the files back, starts the CRI proxy where there is one, and runs C(kubeadm join).
      - V(start) starts the agents that ran before.
      - V(journal) returns the last lines of the kubelet's journal.
    type: str
    required: true
    choices: [look, stop, reset, join, start, journal]
  node:
    description: The Node's name. For V(look) only where the kubelet's certificate does not tell the right one.
    type: str
    default: ""
  operation:
    description: What M(colocation.kubernetes.node_rejoin) returned as its operation, for V(stop) and V(reset).
    type: str
    default: ""
  way:
    description: How the kubelet gets in, from the step V(ignore:prepare), for V(join).
    type: dict
    suboptions:
      endpoint:
        description: C(host:port) of the API server.
        type: str
        required: true
      pins:
        description: The hashes of the keys of the cluster's authority.
        type: list
        elements: str
        required: true
      token:
        description: The bootstrap token.
        type: str
        required: true
  kubelet_flags:
    description: Flags of the kubelet by name, as V(look) found them, for V(join).
    type: dict
    default: {}
  units:
    description: The units to start, for V(start).
    type: list
    elements: str
    default: []
  agents:
    description: Units that are stopped with the kubelet, and started again after it has joined.
    type: list
    elements: str
    default: []
  proxy:
    description:
      - The unit of a CRI proxy, which is started before the node joins, where it is installed. For V(look), one that is
        enabled or runs has to answer.
    type: str
    default: ""
  proxy_socket:
    description: Where the proxy answers.
    type: str
    default: /var/run/cri-resmgr/cri-resmgr.sock
  runtime_socket:
    description: Where containerd itself answers.
    type: str
    default: /run/containerd/containerd.sock
  keep_files:
    description:
      - Patterns of files that a reset would lose and that have to be there again. V(**) stands for directories.
    type: list
    elements: str
    default: []
  links:
    description: Network links that are removed with the old pod network, where they exist.
    type: list
    elements: str
    default: []
  grace:
    description: Seconds that a container has to end before it is killed, at most; its pod may say less.
    type: int
    default: 30
  timeout:
    description: Seconds that the step may take for each of its waits.
    type: int
    default: 300
  state_dir:
    description: Directory on the node that holds the agents' state, and a mark while a rejoin is under way.
    type: path
    default: /var/lib/colocation
seealso:
  - module: colocation.kubernetes.node_rejoin
"""

EXAMPLES = r"""
- name: Look at the host
  colocation.kubernetes.node_rejoin_host:
    step: look
    agents: [colocation-device-plugin.service]
    keep_files: [/var/lib/kubelet/config.json]
  register: found
  no_log: true

- name: Tell what it found
  ansible.builtin.debug:
    var: found.host
"""

RETURN = r"""
host:
  description: The host as it was found.
  returned: O(step=look)
  type: dict
  contains:
    node:
      description: The Node's name.
      type: str
      sample: worker1
    reachable:
      description: Always V(true).
      type: bool
    machine_id:
      description: The machine's id.
      type: str
    control_plane:
      description: Whether it runs a part of the control plane.
      type: bool
    kubelet_running:
      description: Whether a kubelet runs.
      type: bool
    kubelet_conf:
      description: Whether the kubelet has an identity.
      type: bool
    mark:
      description: The operation whose reset is done here, if one is under way.
      type: str
    problems:
      description: Why it could not be rejoined.
      type: list
      elements: str
      sample: []
    agents:
      description: The agents' units that run, or would at the next boot.
      type: list
      elements: str
      sample: [colocation-device-plugin.service]
    kubelet_flags:
      description: The flags that the kubelet was joined with, by name, but those that C(kubeadm) sets itself.
      type: dict
      sample: {node-ip: 10.0.0.11}
files:
  description: The files that a reset would lose. They may be secret.
  returned: O(step=look)
  type: list
  elements: dict
minted:
  description: Namespace and node of the account that was made for the agents, if one was.
  returned: O(step=look)
  type: dict
proof:
  description: That the kubelet and all pods have ended, and what was unmounted.
  returned: O(step=stop)
  type: dict
removed:
  description: What was removed beside what C(kubeadm reset) removes.
  returned: O(step=reset)
  type: list
  elements: str
started:
  description: The units that were started.
  returned: O(step=start)
  type: list
  elements: str
journal:
  description: The last lines of the kubelet's journal.
  returned: O(step=journal)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._cri_call import ContainerRuntime, RuntimeSilent
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_host import HostSide
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_look import Places, as_dict, look_at_host
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_mounts import MountError
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_options import FILES
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import KeptFile, RejoinRefused
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError

ROOT = "/"  # tests put a directory here
ARGUMENTS: dict[str, Any] = {
    "step": {"type": "str", "required": True, "choices": ["look", "stop", "reset", "join", "start", "journal"]},
    "node": {"type": "str", "default": ""},
    "operation": {"type": "str", "default": ""},
    "way": {
        "type": "dict",
        "options": {
            "endpoint": {"type": "str", "required": True},
            "pins": {"type": "list", "elements": "str", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
        },
    },
    "kubelet_flags": {"type": "dict", "default": {}},
    "units": {"type": "list", "elements": "str", "default": []},
    "agents": {"type": "list", "elements": "str", "default": []},
    "proxy": {"type": "str", "default": ""},
    "proxy_socket": {"type": "str", "default": "/var/run/cri-resmgr/cri-resmgr.sock"},
    "runtime_socket": {"type": "str", "default": "/run/containerd/containerd.sock"},
    "keep_files": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "links": {"type": "list", "elements": "str", "default": []},
    "grace": {"type": "int", "default": 30},
    "timeout": {"type": "int", "default": 300},
    **FILES,
    **STATE_DIR,
}


def do_step(params: dict[str, Any], host: HostSide) -> dict[str, Any]:
    """A step that changes the host."""
    step, timeout = params["step"], params["timeout"]
    if step == "stop":
        return {"proof": host.stop(params["operation"], params["node"], params["grace"], timeout)}
    if step == "reset":
        return {"removed": host.reset(params["operation"], params["node"], params["links"], timeout)}
    if step == "join":
        files = [KeptFile(**one) for one in params["files"]]
        host.join(params["node"], params["way"], files, timeout, params["kubelet_flags"])
        return {}
    return {"started": host.start(params["units"], timeout)}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("step", "join", ["way"])],
    )
    params = module.params
    for step, needed in (("stop", ["operation", "node"]), ("reset", ["operation", "node"]), ("join", ["node"])):
        missing = [name for name in needed if params["step"] == step and not params[name]]
        if missing:
            module.fail_json(msg=f"step={step} needs {', '.join(missing)}")
    run = runner(module.run_command)
    systemd = Systemd(run, ROOT)
    runtime = ContainerRuntime(params["runtime_socket"].removeprefix("unix://"))
    places = Places(
        node_name=params["node"],
        proxy=params["proxy"],
        proxy_socket=params["proxy_socket"].removeprefix("unix://"),
        agents=tuple(params["agents"]),
        keep=tuple(params["keep_files"]),
        state_dir=params["state_dir"],
    )
    host = HostSide(systemd, runtime, places, root=ROOT)
    answer: dict[str, Any] = {"changed": False}
    try:
        if params["step"] == "look":
            with host.locked(params["timeout"], only_look=True):  # a killed run's step may still be at work
                found = look_at_host(ROOT, run, systemd, runtime, places)
            answer["host"], answer["files"] = as_dict(found)
            answer["minted"] = found.minted
        elif params["step"] == "journal":
            answer["journal"] = host.journal()
        else:
            answer["changed"] = True
            if not module.check_mode:
                with host.locked(params["timeout"]):
                    answer |= do_step(params, host)
    except (RejoinRefused, MountError, RuntimeSilent, UnitError, ValueError, OSError) as problem:
        module.fail_json(msg=f"step {params['step']}: {problem}")
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
