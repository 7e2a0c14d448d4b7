#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_package
short_description: Install a package on a node when it is missing, and remember that
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Installs a package of the distribution, unless it or the program that it would bring is there already.
  - A package that is there is never upgraded, downgraded or configured.
  - The ledger notes what was installed, so that M(colocation.kubernetes.node_restore) can tell, and remove it when
    told.
  - Works with apt-get, dnf and yum. An installation that was interrupted before is finished, also where its program is
    there already. A configuration that somebody changed stays, and dpkg asks nobody about it.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
    details: Whether the package can be had shows only when it is installed.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: The package's name.
    type: str
    required: true
  version:
    description: The version to install. Without it, the package manager's choice.
    type: str
    default: ""
  program:
    description: A program; where it is found, however it came there, nothing is installed, unless dpkg left O(name)
      half-way.
    type: str
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: A container runtime, if the node has none
  colocation.kubernetes.node_package:
    name: containerd
    program: containerd

- name: That very version from a repository of ours
  colocation.kubernetes.node_package:
    name: containerd.io
    version: 2.1.4-1
    program: containerd
"""

RETURN = r"""
installed:
  description: Whether the package was installed before the call. V(true) too when only O(program) was found.
  returned: success
  type: bool
program:
  description: Where O(program) was found before the call, or V(null).
  returned: success
  type: str
  sample: /usr/bin/containerd
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import runner
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS
from ansible_collections.colocation.kubernetes.plugins.module_utils._packages import PackageError, Packages

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "version": {"type": "str", "default": ""},
    "program": {"type": "str"},
    **LEDGER_OPTIONS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    name = module.params["name"]
    packages = Packages(runner(module.run_command))
    program = module.params["program"] and module.get_bin_path(module.params["program"], opt_dirs=["/usr/local/bin"])
    try:
        unfinished = packages.is_unfinished(name)
        installed = not unfinished and (bool(program) or packages.is_installed(name))
        if not installed and not module.check_mode:
            if unfinished:  # who began with it has noted it, or it is not ours
                packages.configure(name)
            else:
                ledger = Ledger(module.params["state_dir"], module.params["owner"])
                ledger.note("package", name, {"installed": False}, {"installed": True})
            if not (unfinished and packages.is_installed(name)):
                packages.install(name, module.params["version"])
            if not packages.is_installed(name):
                module.fail_json(msg=f"The package manager was content, but {name} is not installed.")
    except (PackageError, LedgerError) as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, module.params["state_dir"]))
    diff = {"before": f"{name}: {'unfinished' if unfinished else 'missing'}\n", "after": f"{name}: installed\n"}
    result = {"changed": not installed, "installed": installed, "program": program or None}
    module.exit_json(**result, **({} if installed else {"diff": diff}))


if __name__ == "__main__":
    main()
