#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_rejoin
short_description: What is done through the API so that a worker node leaves its cluster and joins it anew
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - The half of a rejoin that goes through the Kubernetes API. The other half, on the node, is
    M(colocation.kubernetes.node_rejoin_host).
  - The role P(colocation.kubernetes.rejoin#role) calls the steps of both in order; use that.
  - What the node was is saved in a Secret C(colocation-rejoin-<node>) before the first change, with a Lease of the same
    name as a lock against a second run. So a run that was killed anywhere is finished by the next, from any controller.
  - Every step looks before it changes, and changes nothing that is done already.
  - Takes the rights to read, create, patch and delete C(nodes), to patch C(nodes/status), to list C(pods) and
    C(daemonsets), to create C(pods/eviction), to read C(kube-public/cluster-info), and all of C(secrets) and C(leases)
    in O(namespace), C(secrets) in C(kube-system) too.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.rejoin_files
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
    details: V(begin) says what would be done, or why not. The other steps say only that they would change something.
  diff_mode:
    support: full
    details: For V(begin), the steps that are left.
  idempotent:
    support: full
options:
  step:
    description:
      - V(begin) takes the lock, saves what the node is, and says in RV(steps) what is left to do.
      - V(drain) cordons the node and evicts its pods.
      - V(delete) deletes the Node, given the proof that its pods have ended.
      - V(prepare) makes the Node anew, cordoned and as it was saved, and a token with which its kubelet gets in.
      - V(restore) gives a node that has joined what it lacks of what was saved.
      - V(finish) waits until the node is Ready and as it was, uncordons it, and removes token, saved state and lock.
      - V(fail) leaves O(reason) beside the saved state and lets go of the lock. Where nothing but the drain was begun,
        it uncordons the node and removes the saved state instead, and RV(saved) has V(ignore:undone) as its phase.
    type: str
    required: true
    choices: [begin, drain, delete, prepare, restore, finish, fail]
  node:
    description: The Node's name.
    type: str
    required: true
  holder:
    description:
      - What V(begin) returned as RV(holder). The other steps need it, and stop where another run has taken over.
    type: str
  namespace:
    description: Where the saved state and the lock are.
    type: str
    default: kube-system
  host_facts:
    description: What M(colocation.kubernetes.node_rejoin_host) found, for V(begin), V(drain) and V(delete).
    type: dict
  proof:
    description: What the host's step V(stop) returned as proof, for V(delete).
    type: dict
    default: {}
  fenced:
    description: Whether the user vouches that a host which can't be reached is switched off.
    type: bool
    default: false
  delete_bare_pods:
    description:
      - Whether pods may be evicted that no controller starts again elsewhere. Else V(begin) refuses, with names.
    type: bool
    default: false
  only_unfinished:
    description: Whether V(begin) goes on with what was begun, and begins nothing.
    type: bool
    default: false
  reason:
    description: Why it failed, for V(fail).
    type: str
    default: ""
  timeout:
    description: Seconds that the step may wait.
    type: int
    default: 300
  lock_seconds:
    description:
      - After so many seconds of silence another run may take the lock over. So long the run after a killed one waits.
      - A run that was overtaken stops at its next step through the API, and meanwhile the host's own lock keeps the two
        apart.
    type: int
    default: 120
  token_seconds:
    description: Seconds after which the token ends.
    type: int
    default: 900
seealso:
  - module: colocation.kubernetes.node_rejoin_host
"""

EXAMPLES = r"""
- name: Look at the host
  colocation.kubernetes.node_rejoin_host:
    step: look
  register: found
  no_log: true

- name: What would be done to rejoin it
  colocation.kubernetes.node_rejoin:
    step: begin
    node: "{{ found.host.node }}"
    host_facts: "{{ found.host }}"
    files: "{{ found.files }}"
    kubeconfig: /etc/kubernetes/admin.conf
  delegate_to: control-plane
  check_mode: true
  register: planned
"""

RETURN = r"""
steps:
  description: What is left to do, in order.
  returned: O(step=begin)
  type: list
  elements: str
  sample: [drain, stop, delete, reset, prepare, join, restore, agents, finish]
operation:
  description: The number of this rejoin, the same in all its runs.
  returned: O(step=begin)
  type: str
holder:
  description: The name of this run in the lock.
  returned: O(step=begin)
  type: str
saved:
  description: What was saved, without the contents of files.
  returned: O(step=begin), and O(step=fail) where there is a saved state
  type: dict
evicted:
  description: The pods that were evicted.
  returned: O(step=drain)
  type: list
  elements: str
way:
  description: How the kubelet gets in, with the token. It is a secret.
  returned: O(step=prepare)
  type: dict
files:
  description: The files that the host gets back. They may be secret.
  returned: O(step=prepare)
  type: list
  elements: dict
notes:
  description: What the user should know, such as another pod network.
  returned: O(step=finish)
  type: list
  elements: str
where:
  description: The Secret with the saved state.
  returned: O(step=fail)
  type: str
  sample: kube-system/colocation-rejoin-worker1
"""

import socket
import uuid
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_choice import bad_names
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_cluster import ClusterSide, Terms
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import NodeLock
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_options import FILES
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    HostView,
    KeptFile,
    RejoinRefused,
    read_host,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_store import RecordStore

ARGUMENTS: dict[str, Any] = {
    **kube_arguments(),
    "step": {
        "type": "str",
        "required": True,
        "choices": ["begin", "drain", "delete", "prepare", "restore", "finish", "fail"],
    },
    "node": {"type": "str", "required": True},
    "holder": {"type": "str"},
    "namespace": {"type": "str", "default": "kube-system"},
    "host_facts": {"type": "dict"},
    **FILES,
    "proof": {"type": "dict", "default": {}},
    "fenced": {"type": "bool", "default": False},
    "delete_bare_pods": {"type": "bool", "default": False},
    "only_unfinished": {"type": "bool", "default": False},
    "reason": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 300},
    "lock_seconds": {"type": "int", "default": 120},
    "token_seconds": {"type": "int", "default": 900, "no_log": False},
}


def begin(cluster: ClusterSide, params: dict[str, Any], host: HostView, check_mode: bool) -> dict[str, Any]:
    """What is left to do, or the reason why nothing may be done."""
    terms = Terms(params["fenced"], params["delete_bare_pods"], params["only_unfinished"])
    files = [KeptFile(**one) for one in params["files"]]
    record, steps = cluster.begin(host, files, terms, check_mode)
    plan = {"before": "", "after": "".join(f"{step}\n" for step in steps), "after_header": f"rejoin of {record.node}"}
    return {
        "changed": bool(steps),
        "steps": list(steps),
        "operation": record.operation,
        "saved": record.told(),
        **({"diff": plan} if steps else {}),
    }


def do_step(cluster: ClusterSide, params: dict[str, Any], host: HostView | None) -> dict[str, Any]:
    """Any other step."""
    step, timeout = params["step"], params["timeout"]
    if step == "prepare":
        way, files = cluster.prepare(params["token_seconds"])
        return {"changed": True, "way": way, "files": [asdict(one) for one in files]}
    if step == "restore":
        return {"changed": cluster.restore(timeout)}
    if step == "finish":
        return {"changed": True, "notes": cluster.finish(timeout)}
    if step == "fail":
        record = cluster.fail(params["reason"])
        return {"changed": record is not None, **({"saved": record.told()} if record else {})}
    if host is None:
        raise ValueError(f"step={step} needs host_facts")
    if step == "drain":
        evicted = cluster.drain(host, timeout, params["delete_bare_pods"])
        return {"changed": True, "evicted": evicted}
    return {"changed": cluster.delete(host, params["proof"], params["fenced"], timeout)}


def one_side(module: AnsibleModule, client: KubeClient, holder: str) -> tuple[ClusterSide, RecordStore]:
    params = module.params
    lock = NodeLock(client, params["node"], params["namespace"], holder, params["lock_seconds"])
    store = RecordStore(client, params["node"], params["namespace"])
    return ClusterSide(client, params["node"], lock, store), store


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("step", "begin", ["host_facts"])]
        + [("step", step, ["holder"]) for step in ("drain", "delete", "prepare", "restore", "finish", "fail")],
    )
    params = module.params
    if bad_names([params["node"]]):
        module.fail_json(msg=f"no node can be called {params['node']!r}")
    if module.check_mode and params["step"] != "begin":
        module.exit_json(changed=True)
    holder = params["holder"] or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    try:
        host = read_host(params["host_facts"]) if params["host_facts"] else None
        with connect(module) as client:
            cluster, store = one_side(module, client, holder)
            if params["step"] == "begin" and host is not None:
                answer = {**begin(cluster, params, host, module.check_mode), "holder": holder}
            else:
                answer = {**do_step(cluster, params, host), "where": f"{store.namespace}/{store.name}"}
            module.no_log_values.update(client.secrets())
    except (RejoinRefused, ValueError) as problem:
        module.fail_json(msg=f"{params['node']}: {problem}")
    except ApiError as problem:
        module.fail_json(msg=f"{params['node']}, step {params['step']}: {problem}")
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
