#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_endpoint
short_description: Send a node's kubelet to its runtime through a proxy, or back
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Sets the container runtime endpoint in each place that names one. These are the flag in C(kubeadm-flags.env),
    C(/etc/default/kubelet), C(/etc/sysconfig/kubelet), the unit and its drop-ins; the key C(containerRuntimeEndpoint)
    in the kubelet's configuration and its drop-ins (1.27 and later) and in C(instance-config.yaml), which kubeadm
    merges into it; and the annotation C(kubeadm.alpha.kubernetes.io/cri-socket) of the Node, where there is one.
  - The kubelet never starts without a socket. First the wanted socket has to answer Version and ListContainers; then
    the files are changed and the kubelet is restarted; then its command line, its configuration and, where the
    kubelet's own identity may ask for it, C(/configz) must name the socket, and the node must be Ready. If that fails,
    the files are put back, the kubelet is restarted again, and the task fails.
  - Runs on the node. A run that was killed is finished by the next.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
attributes:
  check_mode:
    support: full
    details: In check mode no socket is asked, for the proxy need not be there yet.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(proxied) sends the kubelet to O(proxy).
      - V(direct) takes O(proxy) out of each place. Those that named another endpoint before get that one again, and
        those that named none lose it.
    type: str
    choices: [proxied, direct]
    default: proxied
  proxy:
    description: Socket of the proxy.
    type: path
    default: /var/run/cri-resmgr/cri-resmgr.sock
  runtime:
    description: Socket of the runtime itself. A kubelet that uses another one is left alone, and the task fails.
    type: path
    default: /run/containerd/containerd.sock
  timeout:
    description: Seconds that the kubelet may take to get up, and its node to be Ready.
    type: int
    default: 180
  wait_ready:
    description:
      - Whether to ask the API server for the node. Without it, a kubelet that is up counts as well, and the annotation
        is left as it is. With O(state=direct) it is set all the same, and an API that does not answer is a warning.
    type: bool
    default: true
  kubeconfig:
    description:
      - The kubelet's kubeconfig, with whose identity its own Node is read.
      - Without it, that which the running kubelet was told to use; where none runs, that of its unit, else
        C(/etc/kubernetes/kubelet.conf).
    type: path
seealso:
  - module: colocation.kubernetes.agent_service
  - module: colocation.kubernetes.node_ready
"""

EXAMPLES = r"""
- name: The kubelet reaches containerd through the CRI proxy
  colocation.kubernetes.kubelet_endpoint:
    state: proxied

- name: And by itself again
  colocation.kubernetes.kubelet_endpoint:
    state: direct
"""

RETURN = r"""
restarted:
  description: Whether the kubelet was restarted.
  returned: success
  type: bool
places:
  description: The files that name, or have to name, the endpoint.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/kubelet/config.yaml, /var/lib/kubelet/instance-config.yaml]
configz:
  description: Whether the kubelet was asked itself, and named the endpoint.
  returned: success
  type: bool
lost:
  description: Ids of containers that ran before the restart and no more after it.
  returned: success
  type: list
  elements: str
  sample: []
downtime:
  description: Seconds from the order to restart the kubelet until its node was Ready.
  returned: success
  type: float
  sample: 3.5
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._grpc_call import CallError, call
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_endpoint import (
    ANNOTATION,
    KEY,
    plain,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_name, read_identity
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_switch import (
    Switch,
    SwitchError,
    Wish,
    World,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness, judge
from ansible_collections.colocation.kubernetes.plugins.module_utils._protobuf_read import (
    ProtobufError,
    messages,
    number,
    text,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import Systemd, UnitError

ARGUMENTS = {
    "state": {"type": "str", "choices": ["proxied", "direct"], "default": "proxied"},
    "proxy": {"type": "path", "default": "/var/run/cri-resmgr/cri-resmgr.sock"},
    "runtime": {"type": "path", "default": "/run/containerd/containerd.sock"},
    "timeout": {"type": "int", "default": 180},
    "wait_ready": {"type": "bool", "default": True},
    "kubeconfig": {"type": "path"},
    **STATE_DIR,
}
OWNER = "kubelet_endpoint"
ASK_SECONDS = 15.0
CONTAINERS = 1  # fields of ListContainersResponse and Container
ID = 1
STATE = 6
RUNNING = 1


def running_containers(socket: str) -> set[str]:
    """The ids of containers that run, by real calls; an OSError where no runtime answers."""
    service = "/runtime.v1.RuntimeService"
    try:
        call(socket, f"{service}/Version", b"", ASK_SECONDS)
        answer = call(socket, f"{service}/ListContainers", b"", ASK_SECONDS)
        found = messages(answer, CONTAINERS)
        return {text(one, ID) for one in found if number(one, STATE) == RUNNING}
    except (CallError, ProtobufError) as problem:
        raise OSError(str(problem)) from None


class Api:
    """The node's own object, by its kubelet's identity. Where the API does not answer, nothing is known."""

    def __init__(self, kubeconfig: str | None, wanted: bool, direct: bool) -> None:
        self.kubeconfig = kubeconfig
        self.wanted = wanted
        self.direct = direct
        self.left = ""  # why the annotation may still name a proxy that goes away

    def client(self) -> KubeClient:
        """A new one each time, since certificates are rotated; one try, since we ask again anyhow."""
        return KubeClient(read_identity(self.kubeconfig), timeout=10, tries=1)

    def ready(self, since: float) -> Readiness:
        if not self.wanted:
            return Readiness(True, "")
        leases = ("apis", "coordination.k8s.io", "v1", "namespaces", "kube-node-lease", "leases")
        try:
            with self.client() as api:
                name = node_name(api)
                node, lease = api.get(api_path("api", "v1", "nodes", name)), api.get(api_path(*leases, name))
        except (AccessError, ApiError) as problem:
            return Readiness(False, str(problem))
        return judge(node, lease, since)

    def configz(self) -> str:
        if not self.wanted:
            return ""
        try:
            with self.client() as api:
                shown: Any = api.get(api_path("api", "v1", "nodes", node_name(api), "proxy", "configz"))
        except (AccessError, ApiError):
            return ""  # a kubelet's own identity has no right to it in most clusters
        return str(shown.get("kubeletconfig", {}).get(KEY, ""))

    def annotate(self, endpoint: str, check: bool) -> bool:
        if not self.wanted and not self.direct:
            return False
        try:
            with self.client() as api:
                path = api_path("api", "v1", "nodes", node_name(api))
                annotations = api.get(path).get("metadata", {}).get("annotations") or {}
                if ANNOTATION not in annotations or plain(annotations[ANNOTATION]) == plain(endpoint):
                    return False
                if not check:
                    api.patch(path, {"metadata": {"annotations": {ANNOTATION: endpoint}}}, MERGE_PATCH)
                return True
        except (AccessError, ApiError) as problem:
            if check:
                return False
            left = f"The kubelet is where it should be; kubeadm's annotation was not set: {problem}"
            if self.wanted:
                raise SwitchError(left) from None
            self.left = left
            return False


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    api = Api(params["kubeconfig"], params["wait_ready"], params["state"] == "direct")
    wish = Wish(params["proxy"], params["runtime"], params["state"] == "proxied", params["timeout"])
    ledger = Ledger(params["state_dir"], OWNER, module.check_mode)
    world = World(running_containers, api.ready, api.annotate, api.configz, time.time)
    switch = Switch(wish, ledger, Systemd(runner(module.run_command)), world)
    try:
        outcome = switch.go()
    except (SwitchError, UnitError, LedgerError) as problem:
        module.fail_json(msg=str(problem), changed=switch.outcome.changed)
    except OSError as problem:
        module.fail_json(msg=in_words(problem, params["state_dir"]), changed=switch.outcome.changed)
    for container in outcome.lost:
        module.warn(f"Container {container} ran before the kubelet's restart and does not any more.")
    if api.left:
        module.warn(f"{api.left}. kubeadm reads it ({ANNOTATION}): see kubectl annotate node")
    module.exit_json(
        changed=outcome.changed,
        restarted=outcome.restarted,
        places=outcome.places,
        configz=outcome.asked,
        lost=outcome.lost,
        downtime=outcome.downtime,
        **({"diff": outcome.diff} if outcome.diff else {}),
    )


if __name__ == "__main__":
    main()
