#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: node_file
short_description: A file of a node, with its original kept for the uninstall
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Makes a path hold a content, be a symbolic link, or be absent.
  - Before the first change the original (content, owner, mode, SELinux label) is kept in a ledger on the node,
    from which M(colocation.kubernetes.node_restore) puts it back.
  - A new file takes the place of the old one in one rename, so that nobody ever reads half of it. Missing parent
    directories are made, and removed again at the uninstall when they are empty.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
  - colocation.kubernetes.ledger.owner
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: The content; the mode where it changes; the link's target.
  idempotent:
    support: full
options:
  path:
    description:
      - The absolute path.
      - When it is a link and O(content) is given, the file that it leads to is managed and a warning says so, unless
        O(follow=false).
    type: path
    required: true
  content:
    description:
      - What the file holds. An empty string makes an empty file.
      - Exactly one of O(content) and O(target) is needed with O(state=present).
    type: str
  target:
    description: Make O(path) a symbolic link to this.
    type: str
  state:
    description: Whether something should be there.
    type: str
    choices: [present, absent]
    default: present
  mode:
    description:
      - Permissions in octal, as a string.
      - Without it, an existing file keeps its mode and a new one gets V(0644).
    type: str
  follow:
    description: Whether a link at O(path) is followed to the file that it leads to; else it is replaced.
    type: bool
    default: true
seealso:
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: A drop-in of the kubelet's unit
  colocation.kubernetes.node_file:
    path: /etc/systemd/system/kubelet.service.d/50-colocation.conf
    content: |
      [Unit]
      After=cri-resource-manager.service
    owner: cri_proxy

- name: A link
  colocation.kubernetes.node_file:
    path: /etc/systemd/system/example.service
    target: /opt/example/example.service

- name: A file that should not be there, kept for the uninstall
  colocation.kubernetes.node_file:
    path: /etc/example.conf
    state: absent
"""

RETURN = r"""
path:
  description: The path that was managed, with links resolved.
  returned: success
  type: str
  sample: /etc/systemd/system/kubelet.service.d/50-colocation.conf
sha256:
  description: Hash of the content that stands there; empty unless it is a file. In check mode that which would stand.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
mode:
  description: Mode of the file that stands there; empty unless it is a file. In check mode that which it would have.
  returned: success
  type: str
  sample: "0644"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._files import digest, in_words, look
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import FileChange, Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import LEDGER_OPTIONS

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    "target": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "mode": {"type": "str"},
    "follow": {"type": "bool", "default": True},
    **LEDGER_OPTIONS,
}


def parse_mode(text: str | None) -> int | None:
    """Octal permissions; ValueError says what was given."""
    if text is None:
        return None
    try:
        mode = int(text.removeprefix("0o"), 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"mode: {text!r} is not an octal mode such as '0644' (put it in quotes)")
    return mode


def change(ledger: Ledger, params: dict) -> FileChange:
    """Make the change that the parameters ask for."""
    if not params["path"].startswith("/"):
        raise ValueError(f"path: {params['path']!r} is not absolute")
    mode = parse_mode(params["mode"])
    if params["state"] == "absent":
        return ledger.remove_file(params["path"])
    if (params["content"] is None) == (params["target"] is None):
        raise ValueError("state: present needs one of content and target, not both")
    if params["target"] is not None:
        return ledger.make_link(params["path"], params["target"])
    content = params["content"].encode(errors="surrogateescape")
    return ledger.write_file(params["path"], content, mode=mode, whole=True, follow=params["follow"])


def describe(made: FileChange, check_mode: bool) -> dict[str, str]:
    """What stands at the path now, re-read, or what would."""
    if not check_mode:
        state = look(made.path)
        is_file = state.kind == "file"
        return {"path": made.path, "sha256": state.sha256, "mode": f"{state.mode:04o}" if is_file else ""}
    if made.after is None or made.after_mode is None:
        return {"path": made.path, "sha256": "", "mode": ""}
    return {"path": made.path, "sha256": digest(made.after), "mode": f"{made.after_mode:04o}"}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    ledger = Ledger(module.params["state_dir"], module.params["owner"], module.check_mode)
    result: dict[str, object] = {}
    try:
        made = change(ledger, module.params)
        result.update(describe(made, module.check_mode))
    except (LedgerError, ValueError) as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, module.params["path"]))
    if made.followed and made.after_mode is not None:
        module.warn(made.followed)
    if made.changed:
        result["diff"] = made.diff()
    module.exit_json(changed=made.changed, **result)


if __name__ == "__main__":
    main()
