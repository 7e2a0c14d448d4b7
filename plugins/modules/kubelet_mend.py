#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_mend
short_description: Write the files that a kubelet needs anew from what is left of them
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Runs on a node that kubeadm joined once, as root, and writes what is missing or broken of the files without which
    its kubelet does not start. The node stays the member that it is, which joining it again would not do.
  - The kubelet's kubeconfig is made of its certificate, if that still holds, the cluster's authority, and the API
    server's address by other files of the node or O(server).
  - The link to the kubelet's certificate is set to the one beside it that holds longest.
  - The authority's file is made of the kubeconfig.
  - The configuration is made of the cluster's ConfigMap C(kube-system/kubelet-config), as kubeadm does it, with the
    node's own C(instance-config.yaml) laid over it. It is asked for with the kubelet's own identity.
  - On a node that kubeadm did not join, whose kubelet has another kubeconfig or a token or program in it, only the link
    is set; what else is wrong stays for what made the node.
  - A file that can be read is never touched. What is broken is kept aside in O(state_dir) first.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: Asks the API server too.
  diff_mode:
    support: full
    details: Names the files, for their contents are keys to the cluster.
  idempotent:
    support: full
options:
  server:
    description:
      - The API server's address, for example V(https://10.0.0.1:6443), where nothing on the node tells it.
        Where something does, this is used all the same, so leave it out then.
    type: str
    default: ""
  state_dir:
    description: Where broken files are kept, below C(kept/kubelet).
    type: path
    default: /var/lib/colocation
  timeout:
    description: Seconds that the API server may take for each answer.
    type: float
    default: 10
notes:
  - It does not restart the kubelet, which systemd starts again by itself while it fails.
  - What it wrote is not put back by C(playbooks/uninstall.yml), for the node would lose its kubelet with it.
seealso:
  - module: colocation.kubernetes.node_health
"""

EXAMPLES = r"""
- name: Mend what can be mended without joining the node again
  colocation.kubernetes.kubelet_mend:
  register: mended

- name: Say what is left for that
  ansible.builtin.debug:
    msg: "{{ mended.left }}"
  when: mended.left | length > 0

- name: See what would be written, with the address of another node
  colocation.kubernetes.kubelet_mend:
    server: https://10.0.0.1:6443
  check_mode: true
"""

RETURN = r"""
mended:
  description: What was written, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    what:
      description: V(certificate-link), V(kubeconfig), V(ca-file) or V(config).
      type: str
      sample: kubeconfig
    path:
      description: The file or link.
      type: str
      sample: /etc/kubernetes/kubelet.conf
    why:
      description: What was wrong with it.
      type: str
      sample: /etc/kubernetes/kubelet.conf is not there
    kept:
      description: Where the broken file is kept; empty where there was none.
      type: str
left:
  description: What is wrong and can't be mended so; joining the node again is what remains.
  returned: success
  type: list
  elements: str
"""

import functools
import os
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._command import run_for
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import (
    FileState,
    digest,
    look,
    put_file,
    put_link,
    read,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._health_unit import read_service
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError, KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import (
    Kubeconfig,
    choose_access,
    parse_document,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_files import KubeletFiles, read_files
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_mend import (
    CONFIG,
    KUBECONFIG,
    LINK,
    Mending,
    Plan,
    merge_config,
    otherwise,
    plan_files,
    wants_config,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import under
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitError

ROOT = "/"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
COMMAND_TIMEOUT = 20.0

ARGUMENTS = {
    "server": {"type": "str", "default": ""},
    "state_dir": {"type": "path", "default": "/var/lib/colocation"},
    "timeout": {"type": "float", "default": 10},
}


def access_of(files: KubeletFiles, plan: Plan) -> Access | None:
    """The way to the API by the kubeconfig that stands or will stand, with the certificate that the link will name."""
    made = next((item.content for item in plan.mendings if item.what == KUBECONFIG), "")
    link = next((item for item in plan.mendings if item.what == LINK), None)
    text = made or (files.kubeconfig.text if files.access else "")
    if not text:
        return None
    if link is not None:
        text = text.replace(link.path, link.target)
    path = files.kubeconfig.path
    return choose_access([Kubeconfig(parse_document(text, path), path, os.path.dirname(path))])


def fetch_config(access: Access, timeout: float) -> str:
    """The cluster's configuration of kubelets, as kubeadm uploads it."""
    with KubeClient(access, timeout=timeout) as api:
        data = api.get(CONFIG_MAP).get("data") or {}
    text = str(data.get("kubelet", ""))
    if not text.strip() or text.lstrip().startswith("{"):
        raise AccessError("the ConfigMap kube-system/kubelet-config has no configuration as kubeadm writes it")
    return text


def mend_config(files: KubeletFiles, plan: Plan, why: str, timeout: float) -> tuple[Mending | None, str]:
    """The configuration as it should be, or why it can't be had."""
    if files.made_otherwise:
        return None, otherwise(files, why)
    try:
        access = access_of(files, plan)
        if access is None:
            return None, f"{why}, and without a kubeconfig the cluster can't be asked for it"
        own = "" if files.instance_config.problem else files.instance_config.text
        return Mending(CONFIG, files.config.path, why, merge_config(fetch_config(access, timeout), own)), ""
    except (AccessError, ApiError) as problem:
        return None, f"{why}, and the cluster does not give it: {problem}"


def keep_aside(state_dir: str, path: str) -> str:
    """A copy that only root reads; the same content is kept once. Returns where, or nothing where no file stands."""
    try:
        content = read(path)
    except OSError:
        return ""
    if content is None:
        return ""
    kept = os.path.join(state_dir, "kept", "kubelet", f"{os.path.basename(path)}.{digest(content)[:12]}")
    os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
    put_file(kept, content, FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=0o600))
    return kept


def apply(item: Mending, state_dir: str) -> str:
    """Write one file; where what stood there is kept."""
    path = under(ROOT, item.path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if item.what == LINK:
        put_link(path, item.target)
        return ""
    kept = keep_aside(state_dir, path)
    mode = 0o600 if item.what == KUBECONFIG else 0o644
    stood = look(path)
    if stood.kind == "file":
        mode = stood.mode
    put_file(path, item.content.encode(), FileState("file", uid=os.geteuid(), gid=os.getegid(), mode=mode))
    return kept


def is_running() -> bool:
    """Whether the kubelet is up for good, which proves its configuration; where systemd is silent nothing is proved."""
    try:
        unit = read_service(ROOT, functools.partial(run_for, seconds=COMMAND_TIMEOUT), "kubelet.service").unit
    except UnitError:
        return True
    return unit is not None and unit.active == "active" and not unit.crashes


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    if params["server"] and not params["server"].startswith("https://"):
        module.fail_json(msg=f"server is {params['server']!r}; it must be an https:// address")
    now = time.time()
    files = read_files(ROOT, now)
    plan = plan_files(files, now, params["server"])
    mendings, left = list(plan.mendings), list(plan.left)
    why = wants_config(files, is_running())
    if why:
        config, problem = mend_config(files, plan, why, params["timeout"])
        mendings += [config] if config else []
        left += [problem] if problem else []
    told = []
    try:
        for item in mendings:
            kept = "" if module.check_mode else apply(item, params["state_dir"])
            told.append({"what": item.what, "path": item.path, "why": item.why, "kept": kept})
    except OSError as problem:
        done = ", ".join(one["path"] for one in told) or "nothing"
        module.fail_json(msg=f"{item.path} can't be written: {problem.strerror or problem}; written were: {done}")
    diff = [{"header": item.path, "prepared": f"{item.why}; it is written anew\n"} for item in mendings]
    module.exit_json(changed=bool(mendings), mended=told, left=left, diff=diff)


if __name__ == "__main__":
    main()
