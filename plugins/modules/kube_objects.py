#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kube_objects
short_description: A set of objects in the cluster that gets ready as a whole or is taken back
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Has objects of the Kubernetes API say what their documents say, by server-side apply. What somebody else changed in
    a field that a document has goes back; fields that no document ever had are left alone.
  - Every object gets labels that say it is ours. An object that has the name and not the labels is left alone and the
    module fails, unless O(adopt). What has the labels of the same O(component) and is not among O(objects) any more is
    removed at the end.
  - A Namespace that is there and not ours is used as it is and never removed, unless O(adopt).
  - With O(timeout), the Deployments and DaemonSets among the objects must get ready. If they don't, all objects are put
    back to what they were, or removed where there were none, and the module fails with what the pods say. What stood
    before is noted in a Secret C(colocation-<component>-before), so a run that was killed is finished by the next.
  - With O(trial), pods try what is new before anything is changed.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.kube_auth
attributes:
  check_mode:
    support: full
    details: The API server does everything but the writing. Nothing is tried by a pod.
  diff_mode:
    support: full
    details: What changes of each object. Of Secrets and binary data only hashes are shown.
  idempotent:
    support: full
options:
  component:
    description: For what part of the collection they are; the label C(app.kubernetes.io/component).
    type: str
    required: true
  namespace:
    description: Where the note of what stood before is kept. It must exist.
    type: str
    default: kube-system
  objects:
    description:
      - The objects, in the order in which they are written. For Secrets use C(data), not C(stringData).
      - With O(state=absent) only the names count, and whatever has the component's labels goes too.
    type: list
    elements: dict
    required: true
  trial:
    description:
      - Objects that are made before something is changed, and removed again. The Pods among them must end well.
    type: list
    elements: dict
    default: []
  leftovers:
    description: What the workloads make themselves and nobody labels, such as a Lease. It goes with O(state=absent).
    type: list
    elements: dict
    default: []
  adopt:
    description: Whether objects that are not ours are taken over.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for the trial, for the workloads to get ready, and for objects to go.
      - With V(0) nothing is waited for, tried or put back.
    type: int
    default: 0
  state:
    description: Whether there should be such objects.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: A workload that is taken back if it does not get ready
  colocation.kubernetes.kube_objects:
    component: example
    namespace: default
    timeout: 120
    kubeconfig: /etc/kubernetes/admin.conf
    objects:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: example, namespace: default}
        spec:
          selector: {matchLabels: {app: example}}
          template:
            metadata: {labels: {app: example}}
            spec: {containers: [{name: main, image: "registry.example/program:2"}]}

- name: All of it removed
  colocation.kubernetes.kube_objects:
    component: example
    namespace: default
    objects: []
    state: absent
"""

RETURN = r"""
changed_objects:
  description: The objects that were changed, made or removed.
  returned: success
  type: list
  elements: str
  sample: [Secret kube-system/kube-scheduler-mem-secret, Deployment kube-system/schedulingplugin-mem-usage]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_deploy import Wish, deploy
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_objects import ObjectProblem, Objects, told
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_options import (
    connect,
    hide_secret_objects,
    kube_arguments,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_workload import Watch

ARGUMENTS = {
    "component": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "kube-system"},
    "objects": {"type": "list", "elements": "dict", "required": True, "no_log": True},
    "trial": {"type": "list", "elements": "dict", "default": [], "no_log": True},
    "leftovers": {"type": "list", "elements": "dict", "default": []},
    "adopt": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 0},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> None:
    module = AnsibleModule(argument_spec={**kube_arguments(), **ARGUMENTS}, supports_check_mode=True)
    given = module.params
    hide_secret_objects(module, [*given["objects"], *given["trial"]])
    wish = Wish(given["component"], given["namespace"], given["objects"], given["trial"], given["leftovers"])
    try:
        with connect(module) as api:
            objects = Objects(api, wish.component, given["adopt"])
            watch = Watch(objects, given["timeout"]) if given["timeout"] > 0 else None
            changes = deploy(objects, wish, watch, given["state"], module.check_mode)
    except (ApiError, ObjectProblem) as problem:
        module.fail_json(msg=str(problem))
    names = [str(change.name) for change in changes]
    module.exit_json(changed=bool(changes), changed_objects=names, diff=[told(change) for change in changes])


if __name__ == "__main__":
    main()
