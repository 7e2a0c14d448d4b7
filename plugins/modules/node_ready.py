#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_ready
short_description: Wait until a node is Ready in the API
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Runs on the node and asks the API server with the kubelet's own identity, so no other right is needed.
  - The node is taken for ready when its Ready condition is true and its kubelet has renewed its lease since the module
    began; what an earlier kubelet said does not count.
  - When the time is over the error has the reason from the API and the last lines of the kubelet's journal.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: In check mode it looks once, never waits and never fails, for what should mend the node was not done.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  timeout:
    description: Seconds to wait.
    type: int
    default: 180
  kubeconfig:
    description:
      - The kubelet's kubeconfig. It may name a certificate, a token or a program.
      - Without it, that which the running kubelet was told to use; where none runs, that of its unit, else
        C(/etc/kubernetes/kubelet.conf).
    type: path
"""

EXAMPLES = r"""
- name: The next node is touched only when this one carries pods again
  colocation.kubernetes.node_ready:
    timeout: 300
"""

RETURN = r"""
node:
  description: The node's name in the API, empty when the API could not be asked.
  returned: success
  type: str
  sample: worker1
kubeconfig:
  description: The kubeconfig that was used.
  returned: success
  type: str
  sample: /etc/kubernetes/kubelet.conf
ready:
  description: Whether the node is ready. Never V(false) outside of check mode.
  returned: success
  type: bool
reason:
  description: Why it is not.
  returned: success
  type: str
  sample: ""
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient, api_path
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_identity import node_name, read_identity
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_kubelet import kubelets_kubeconfig
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_ready import Readiness, judge

ARGUMENTS = {
    "timeout": {"type": "int", "default": 180},
    "kubeconfig": {"type": "path"},
}
PAUSE = 1.0


def look(kubeconfig: str | None, since: float) -> tuple[str, Readiness]:
    """One question to the API; a kubelet that waits for its certificate is not ready yet."""
    try:
        # A new client each time, since certificates are rotated; one try, since we ask again anyhow.
        with KubeClient(read_identity(kubeconfig), timeout=10, tries=1) as api:
            name = node_name(api)
            node = api.get(api_path("api", "v1", "nodes", name))
            leases = ("apis", "coordination.k8s.io", "v1", "namespaces", "kube-node-lease", "leases")
            lease = api.get(api_path(*leases, name))
    except (AccessError, ApiError) as problem:
        return "", Readiness(False, str(problem))
    return name, judge(node, lease, since)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    began = time.time()
    end = time.monotonic() + module.params["timeout"]
    # One look in check mode can't ask for a new sign of life.
    name, found = look(module.params["kubeconfig"], 0 if module.check_mode else began)
    while not found.ready and not module.check_mode:
        if time.monotonic() > end:
            _code, journal, _err = module.run_command(["journalctl", "--no-pager", "-n", "15", "-u", "kubelet"])
            module.fail_json(
                msg=f"The node is not Ready after {module.params['timeout']} s: {found.reason}\n"
                f"The kubelet's journal:\n{journal}"
            )
        time.sleep(PAUSE)
        name, found = look(module.params["kubeconfig"], began)
    kubeconfig = module.params["kubeconfig"] or kubelets_kubeconfig()
    module.exit_json(changed=False, node=name, kubeconfig=kubeconfig, ready=found.ready, reason=found.reason)


if __name__ == "__main__":
    main()
