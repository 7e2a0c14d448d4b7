#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_release
short_description: A release of the agents on a node
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Makes the agents that this collection brings stand in O(root)C(/releases/<id>) on a node, with all the packages that
    they need. The node needs nothing but a Python, and no access to a package index.
  - An action plugin of the same name works on the controller. It asks the node for its Python and architecture, makes
    the tree for that with pip (or takes it from its cache), and copies it only if the node does not have it.
  - On the node the tree is unpacked under another name, compared with its hash, compiled, and imported with the
    interpreter of the units; then one rename makes it a release. Whatever goes wrong before, the releases that stand
    there stay as they are.
  - The name is made of the version and the hash of the whole tree, so changed code is another release.
  - C(current) is only set where it leads nowhere. To move agents to a new release is the work of
    M(colocation.kubernetes.agent_service), which sees whether they get healthy.
options:
  state:
    description:
      - V(present) makes the release stand there, and removes old ones.
      - V(absent) removes all of them, and O(root) when nothing else is in it. It is an error while an agent runs from
        there.
    type: str
    choices: [present, absent]
    default: present
  root:
    description: The directory of the agents on the node.
    type: path
    default: /opt/colocation
  interpreter:
    description:
      - The Python on the node that runs the agents, as an absolute path.
      - Without it, C(/usr/bin/python3) is taken, or else the newest C(/usr/bin/python3.NN) that there is a lock for.
    type: str
    default: ""
  keep:
    description:
      - How many releases stay. The wanted one stays, and those in use (C(current) leads there, a process runs from
        there, an agent would go back to it), even when they are more; then the newest.
    type: int
    default: 3
  state_dir:
    description: Directory on the node with the agents' records, which name the releases that they would go back to.
    type: path
    default: /var/lib/colocation
  source:
    description: Directory on the controller with the agents' distribution. Without it, the one in this collection.
    type: str
    default: ""
  index:
    description: Address of the package index for pip on the controller. Without it, what pip is configured with.
    type: str
    default: ""
  wheel_dir:
    description: Directory on the controller with the wheels that the locks name. Then no index is asked.
    type: str
    default: ""
  pip:
    description:
      - The pip (or a Python that has one) on the controller.
      - Without it, that of the Python that runs Ansible, the one that its ensurepip brings, or C(pip3) in the path.
    type: str
    default: ""
  cache_dir:
    description:
      - Directory on the controller that keeps made archives; only its user may read it.
      - Without it, C(colocation-kubernetes/agents) in the user's cache directory (C(XDG_CACHE_HOME), C(~/.cache)).
    type: str
    default: ""
  order:
    description:
      - What the action plugin wants of the module on the node. It is refused in a task.
      - C(pythons) (the minors that there are locks for) asks how the node stands. C(release), C(archive) and C(sha256)
        (a release's record, its archive on the node and the archive's hash) make the release stand there.
    type: dict
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: The archive is made on the controller if it is not in the cache, for only it tells the release's name.
  diff_mode:
    support: full
    details: The names of the releases, and which one C(current) leads to.
  idempotent:
    support: full
  platform:
    support: full
    description: Systems that it works on.
    details: Linux with glibc; a Python and an architecture that there is a lock for.
    platforms: linux
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: The agents, for the Python of the node
  colocation.kubernetes.agent_release:
  register: agents

- name: What was installed
  ansible.builtin.debug:
    msg: "{{ agents.release }} for {{ agents.interpreter }}"

- name: On a RHEL-like 9, with Python 3.11 from its repositories and no index within reach
  colocation.kubernetes.agent_release:
    interpreter: /usr/bin/python3.11
    wheel_dir: /srv/wheels

- name: Remove all of them
  colocation.kubernetes.agent_release:
    state: absent
"""

RETURN = r"""
release:
  description: The name of the release that stands there. In check mode that which would.
  returned: O(state=present)
  type: str
  sample: 0.1.0-3f5a9c0d1e2b
record:
  description: What its C(RELEASE.json) says. C(agents) has the hash of all that each agent runs.
  returned: O(state=present)
  type: dict
interpreter:
  description: The Python on the node that runs the agents.
  returned: O(state=present)
  type: str
  sample: /usr/bin/python3
installed:
  description: Whether the release was not there before. In check mode whether it would be installed.
  returned: O(state=present)
  type: bool
removed:
  description: The releases that were removed.
  returned: always
  type: list
  elements: str
kept:
  description: Paths below O(root) that are not ours and were left.
  returned: O(state=absent)
  type: list
  elements: str
archive:
  description: Size of the archive, and whether it was made in this run rather than found in the cache.
  returned: O(state=present)
  type: dict
  sample: {"bytes": 8518586, "made": false}
seconds:
  description: How long each step took.
  returned: O(state=present)
  type: dict
  sample: {"look": 0.9, "archive": 0.1, "copy": 0.4, "install": 2.1}
"""

import os
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_install import Order, install
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_interpreter import NoInterpreter, find
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_options import ARGUMENTS
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_releases import (
    ReleaseError,
    drop,
    locked,
    look,
    plan,
    point,
    removal,
    remove_all,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_tree import Release
from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner


def see(module: AnsibleModule, pythons: list[str]) -> None:
    """What stands on the node, for the action plugin to decide."""
    params = module.params
    interpreter = find(params["interpreter"], pythons, runner(module.run_command))
    view = look(params["root"], params["state_dir"])
    module.exit_json(changed=False, interpreter=asdict(interpreter), view=view.to_json())


def settle(module: AnsibleModule, wanted: dict[str, Any]) -> None:
    """Make the release stand there."""
    params = module.params
    release = Release.from_json(wanted["release"])
    root = params["root"]
    with locked(root) as releases:
        view = look(root, params["state_dir"])
        todo = plan(view, release.id, release.python, release.architecture, params["keep"])
        drop(releases, view.leftovers)
        if todo.install:
            if "archive" not in wanted:
                raise ReleaseError(f"release {release.id} was changed while we looked; run again")
            order = Order(wanted["archive"], wanted["sha256"], release, params["interpreter"])
            install(order, releases, runner(module.run_command), replaces=bool(todo.replaces))
        if todo.link:
            point(root, release.id)
        drop(releases, todo.remove)
    module.exit_json(changed=todo.changes, installed=todo.install, removed=list(todo.remove))


def clear(module: AnsibleModule) -> None:
    """Remove everything."""
    root = module.params["root"]
    found = removal(root) if module.check_mode else remove_all(root)
    before = "".join(f"{os.path.join(root, 'releases', name)}\n" for name in found.releases)
    diff = {"before": before, "after": "", "before_header": root, "after_header": root}
    module.exit_json(changed=found.changes, removed=list(found.releases), kept=list(found.kept), diff=diff)


def main() -> None:
    module = AnsibleModule(argument_spec={**ARGUMENTS, "order": {"type": "dict"}}, supports_check_mode=True)
    order = module.params["order"] or {}
    try:
        if module.params["state"] == "absent":
            clear(module)
        elif "release" in order:
            settle(module, order)
        elif "pythons" in order:
            see(module, order["pythons"])
        module.fail_json(msg="agent_release works through its action plugin; call it as a task, by its full name")
    except (ReleaseError, NoInterpreter) as problem:
        module.fail_json(msg=str(problem))
    except (OSError, ValueError) as problem:
        module.fail_json(msg=f"the releases in {module.params['root']} can't be changed: {problem}")


if __name__ == "__main__":
    main()
