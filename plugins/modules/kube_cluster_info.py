#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kube_cluster_info
short_description: What a cluster is, as its API tells
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Reads the cluster's version, where it takes its images from, the API server's address inside, and the nodes.
  - Takes the rights to list C(nodes) and, outside of the project's own registry, to read the ConfigMap C(kubeadm-config).
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Look at the cluster
  colocation.kubernetes.kube_cluster_info:
    kubeconfig: /etc/kubernetes/admin.conf
  register: cluster

- name: Name the image of its scheduler
  ansible.builtin.debug:
    msg: "{{ cluster.image_repository }}/kube-scheduler:v{{ cluster.version }}"
"""

RETURN = r"""
version:
  description: The API server's version, without what a build added to it.
  returned: success
  type: str
  sample: 1.36.3
minor:
  description: Its minor version.
  returned: success
  type: int
  sample: 36
image_repository:
  description: Where kubeadm takes images from.
  returned: success
  type: str
  sample: registry.k8s.io
service_address:
  description: The API server as pods reach it without DNS.
  returned: success
  type: str
  sample: https://10.96.0.1:443
api_groups:
  description: The groups of the API that this cluster has.
  returned: success
  type: list
  elements: str
  sample: [apps, metrics.k8s.io]
nodes:
  description: The nodes by their names.
  returned: success
  type: list
  elements: dict
  sample: [{name: worker1, address: 10.77.0.11, control_plane: false, ready: true}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_cluster import ClusterUnclear, look
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import connect, kube_arguments


def main() -> None:
    module = AnsibleModule(argument_spec=kube_arguments(), supports_check_mode=True)
    try:
        with connect(module) as api:
            result = look(api)
    except (ApiError, ClusterUnclear) as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
