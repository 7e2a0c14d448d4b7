#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_config
short_description: Merge what Kubernetes needs into containerd's config
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Makes containerd use the wished cgroup driver for every runtime of a runc type, makes sure that its CRI plugin is
    not disabled, and sets the sandbox image and the CNI directories when asked to.
  - Everything else stays as it is, such as registries, other runtimes, comments and the order of lines.
  - Config versions 1 to 4 are understood. On containerd 1.x the file that holds the CRI plugin's table is edited in
    place, because a drop-in would replace the whole table there. On containerd 2.x the settings go into a drop-in,
    which the main file imports last, so that it wins; only C(disabled_plugins), which containerd joins over all
    files, and a file that is read even later are edited in place.
  - containerd itself is asked, with C(containerd config dump), before and after, also in check mode. The planned files
    are shown to it first. If any key but the wished ones would change, nothing is written.
  - A config that containerd cannot read is never touched unless O(repair=true).
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
    details:
      - Asks containerd about a private temporary copy of the planned files.
      - Where containerd is not installed, a change is reported, with RV(containerd_version) null. With O(version) it is
        worked out what would be written.
  diff_mode:
    support: full
    details: Only the changed lines, each with the table it belongs to. Of a repaired file no values are shown.
  idempotent:
    support: full
options:
  path:
    description: The main config file. It is made when it is missing.
    type: path
    default: /etc/containerd/config.toml
  drop_in:
    description:
      - The drop-in that is written on containerd 2.x.
      - By default C(conf.d/zz-colocation.toml) beside O(path), which sorts after the drop-ins of others.
    type: path
  cgroup_driver:
    description:
      - The cgroup driver of the runtimes, which must be that of the kubelet.
      - The CRI plugin's own C(systemd_cgroup) of old configs is turned off, because the plugin does not start with it,
        unless the default runtime is of the type V(io.containerd.runtime.v1.linux), for which it is the right key.
    type: str
    choices: [systemd, cgroupfs]
    default: systemd
  runtimes:
    description:
      - Names of the runtimes whose cgroup driver is set.
      - By default all that containerd has of the types V(io.containerd.runc.v2) and V(io.containerd.runc.v1), so also
        V(nvidia) and others that wrap runc. The kubelet makes the cgroups of all pods, so every runtime that makes
        cgroups itself needs the kubelet's driver. Runtimes of other types (Kata, gVisor) do not know this option and
        are left alone.
    type: list
    elements: str
  sandbox_image:
    description: The pod sandbox image, for example V(registry.k8s.io/pause:3.10). By default it stays as it is.
    type: str
  cni_bin_dir:
    description: The only directory of CNI plugins. By default it stays as it is.
    type: path
  cni_conf_dir:
    description: The directory of CNI configs. By default it stays as it is.
    type: path
  repair:
    description:
      - What to do when containerd can't read a file of its config.
      - With V(false) the module fails, also in check mode, and says what is wrong on which line.
      - With V(true) the broken file is kept aside in O(state_dir), and one with all that could be saved is written.
        Tables whose header and lines can be read are kept; what was left out is listed in RV(dropped).
    type: bool
    default: false
  version:
    description:
      - The version of containerd to assume in check mode on a node that has none yet, for example V(2.1).
      - Ignored where containerd is installed.
    type: str
  containerd:
    description: The containerd program, a name or an absolute path.
    type: str
    default: containerd
  service:
    description: containerd's systemd unit, which is asked for its start time only.
    type: str
    default: containerd.service
notes:
  - The module never restarts containerd. Do so when RV(restart_needed), which stays true over an interrupted run until
    containerd is started anew.
seealso:
  - module: colocation.kubernetes.node_file
"""

EXAMPLES = r"""
- name: What the kubelet needs with the systemd driver
  colocation.kubernetes.containerd_config:
  register: config

- name: Restart only when the effective config changed
  ansible.builtin.systemd_service:
    name: containerd.service
    state: restarted
  when: config.restart_needed

- name: Images and CNI plugins in other places, too
  colocation.kubernetes.containerd_config:
    sandbox_image: registry.example.com/pause:3.10
    cni_bin_dir: /usr/lib/cni
    cni_conf_dir: /etc/cni/net.d

- name: Replace a config that containerd can't read, keep what can be saved of it
  colocation.kubernetes.containerd_config:
    repair: true

- name: What would be done on a node without containerd
  colocation.kubernetes.containerd_config:
    version: "1.7"
  check_mode: true
"""

RETURN = r"""
effective_changed:
  description: Whether the effective config changes, and not only the text of files.
  returned: success
  type: bool
  sample: true
restart_needed:
  description:
    - Whether containerd runs with another effective config than the one that stands.
    - Also true when an earlier run changed it and containerd was not started anew since.
  returned: success
  type: bool
  sample: true
containerd_version:
  description: Version of the installed containerd; null where there is none.
  returned: success
  type: str
  sample: 2.1.4
config_version:
  description: Config version of the main file as it stands after the run; null where that can't be known.
  returned: success
  type: int
  sample: 3
changed_keys:
  description:
    - The keys of the effective config that change, as C(containerd config dump) names them.
    - Empty in check mode where containerd is not installed and no O(version) is assumed.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: The key.
      type: str
      sample: plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options.SystemdCgroup
    before:
      description: Its value before; null when there was none.
      type: raw
      sample: false
    after:
      description: Its value now.
      type: raw
      sample: true
files:
  description: The files that were written, in this order.
  returned: success
  type: list
  elements: str
  sample: [/etc/containerd/conf.d/zz-colocation.toml, /etc/containerd/config.toml]
backup:
  description: Copies of files that containerd could not read, as they were.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/colocation/kept/containerd/config.toml.0f1e2d3c4b5a]
dropped:
  description: What could not be saved of files that containerd could not read.
  returned: success
  type: list
  elements: str
  sample: ["/etc/containerd/config.toml, line 7: SystemdCgroup = … (this is not a value (a text needs quotes))"]
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_ask import (
    Assumed,
    ContainerdError,
    Oracle,
    Unreadable,
    find_containerd,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_decide import (
    Decision,
    decide,
    fingerprint,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_files import Disk, load
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_mend import (
    Broken,
    ConfigError,
    explain,
    standing,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_report import changed_keys, differences
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_restart import (
    Now,
    is_due,
    note_for,
    read_active_since,
    read_note,
    remove_note,
    write_note,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_schema import parse_version
from ansible_collections.colocation.kubernetes.plugins.module_utils._containerd_view import Request, WishError
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import digest, in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS

ARGUMENTS = {
    "path": {"type": "path", "default": "/etc/containerd/config.toml"},
    "drop_in": {"type": "path"},
    "cgroup_driver": {"type": "str", "choices": ["systemd", "cgroupfs"], "default": "systemd"},
    "runtimes": {"type": "list", "elements": "str"},
    "sandbox_image": {"type": "str"},
    "cni_bin_dir": {"type": "path"},
    "cni_conf_dir": {"type": "path"},
    "repair": {"type": "bool", "default": False},
    "version": {"type": "str"},
    "containerd": {"type": "str", "default": "containerd"},
    "service": {"type": "str", "default": "containerd.service"},
    **LEDGER_OPTIONS,
}

PROBLEMS = (ConfigError, ContainerdError, LedgerError, WishError)


def wished(params: dict) -> Request:
    runtimes = params["runtimes"]
    return Request(
        systemd_cgroup=params["cgroup_driver"] == "systemd",
        runtimes=None if runtimes is None else tuple(runtimes),
        sandbox_image=params["sandbox_image"],
        cni_bin_dir=params["cni_bin_dir"],
        cni_conf_dir=params["cni_conf_dir"],
    )


def find_oracle(module: AnsibleModule) -> tuple[Oracle | None, str | None]:
    """Who is asked about the config, and the installed version."""

    def run(command: list[str]) -> tuple[int, str, str]:
        return module.run_command(command, environ_update={"LC_ALL": "C"}, errors="surrogateescape")

    binary = module.get_bin_path(module.params["containerd"], opt_dirs=["/usr/local/bin", "/usr/local/sbin"])
    if binary:
        found = find_containerd(run, binary)
        return found, str(found.version)
    if not module.check_mode:
        raise ContainerdError(f"There is no {module.params['containerd']} on this node; install containerd first.")
    if module.params["version"] is None:
        return None, None
    version = parse_version(module.params["version"])
    if version is None:
        raise ContainerdError(f"version: {module.params['version']!r} is no version such as 1.7 or 2.1.4")
    return Assumed(version), None


def look_at_moment(module: AnsibleModule) -> Now:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    systemctl = module.get_bin_path("systemctl")
    active_since = None
    if systemctl:
        properties = "--property=ActiveState,ActiveEnterTimestampMonotonic"
        _status, output, _errors = module.run_command([systemctl, "show", properties, module.params["service"]])
        active_since = read_active_since(output)
    return Now(time.monotonic(), boot, active_since)


def kept_path(state_dir: str, broken: Broken) -> str:
    name = f"{os.path.basename(broken.path)}.{digest(broken.data)[:12]}"
    return os.path.join(state_dir, "kept", "containerd", name)


def keep_aside(state_dir: str, broken: Broken) -> None:
    """A copy that only root reads; the same content is kept once."""
    path = kept_path(state_dir, broken)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(broken.data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def write(ledger: Ledger, decision: Decision) -> list[str]:
    """Write what was decided; what a link leads to is written, and said."""
    return [
        change.followed
        for path, content in decision.edits.items()
        for change in [ledger.write_file(path, content, whole=decision.originals[path] is None)]
        if change.followed
    ]


def reread(oracle: Oracle, path: str, decision: Decision) -> None:
    """What stands now must be what containerd was shown before."""
    files = load(path, Disk())
    try:
        now = standing(oracle, files)
    except Unreadable as problem:
        raise ConfigError(f"After the write: {explain(files, problem)}") from problem
    if fingerprint(now) != fingerprint(decision.after):
        raise ConfigError(
            f"{path} was written, but containerd's effective config is not what it was to be; somebody else wrote to "
            "these files at the same time, or containerd reads others. Compare `containerd config dump` and run again."
        )


def restart_needed(module: AnsibleModule, decision: Decision, now: Now) -> bool:
    """Also clears a note that is over."""
    if decision.effective_changed:
        return True
    state_dir = module.params["state_dir"]
    note = read_note(state_dir)
    due = is_due(note, now, fingerprint(decision.after))
    if note is not None and not due and not module.check_mode:
        remove_note(state_dir)
    return due


def unknown(path: str) -> dict:
    """In check mode without containerd: all of it would be done."""
    return {
        "changed": True,
        "effective_changed": True,
        "restart_needed": True,
        "containerd_version": None,
        "config_version": None,
        "changed_keys": [],
        "files": [path],
        "backup": [],
        "dropped": [],
    }


def apply(module: AnsibleModule, oracle: Oracle, decision: Decision, now: Now) -> None:
    params = module.params
    for broken in decision.broken:
        keep_aside(params["state_dir"], broken)
    if decision.effective_changed:
        before = fingerprint(decision.before) if decision.before is not None else ""
        write_note(params["state_dir"], note_for(read_note(params["state_dir"]), now, before))
    for sentence in write(Ledger(params["state_dir"], params["owner"]), decision):
        module.warn(sentence)
    reread(oracle, params["path"], decision)


def run(module: AnsibleModule) -> dict:
    params = module.params
    oracle, version = find_oracle(module)
    if oracle is None:
        problem = next((file for file in load(params["path"], Disk()).files if file.problem is not None), None)
        if problem is not None and not params["repair"]:
            raise ConfigError(
                f"{problem.path}, {problem.problem}. containerd can't read this; mend it, or repair: true."
            )
        return unknown(params["path"])
    drop_in = params["drop_in"] or os.path.join(os.path.dirname(params["path"]), "conf.d", "zz-colocation.toml")
    decision = decide(oracle, Disk(), params["path"], drop_in, wished(params), params["repair"])
    now = look_at_moment(module)
    if decision.edits and not module.check_mode:
        apply(module, oracle, decision, now)
    for sentence in decision.warnings:
        module.warn(sentence)
    result = {
        "changed": bool(decision.edits),
        "effective_changed": decision.effective_changed,
        "restart_needed": restart_needed(module, decision, now),
        "containerd_version": version,
        "config_version": decision.config_version,
        "changed_keys": changed_keys(decision),
        "files": list(decision.edits),
        "backup": [kept_path(params["state_dir"], broken) for broken in decision.broken],
        "dropped": [f"{one.path}, {dropped}" for one in decision.broken for dropped in one.salvage.dropped],
    }
    if decision.edits:
        result["diff"] = differences(decision)
    return result


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = run(module)
    except PROBLEMS as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, module.params["path"]))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
