# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The place of the agents' identity on a node: what stands there, and putting another in its place, for root alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import (
    CredentialsError,
    Identity,
    describe,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import KUBELET
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import look
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import choose_access, read_kubeconfig
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger

DIRECTORY = "credentials"  # under the state directory


@dataclass(frozen=True, slots=True)
class Place:
    """Where it all is."""

    state_dir: str

    @property
    def directory(self) -> str:
        return os.path.join(self.state_dir, DIRECTORY)

    @property
    def kubeconfig(self) -> str:
        return os.path.join(self.directory, "kubeconfig")

    @property
    def account(self) -> str:
        return os.path.join(self.directory, "account.json")


def standing(place: Place) -> Identity | None:
    """What the agents have now; None where they have nothing, AccessError where it can't be used."""
    state = look(place.kubeconfig)
    if state.kind == "absent":
        return None
    config = read_kubeconfig(place.kubeconfig)
    if state.kind == "link":
        return Identity(
            KUBELET, choose_access([replace(config, directory=os.path.dirname(state.target))]), state.target
        )
    return Identity(str(config.document.get("current-context", "")), choose_access([config]))


def recorded_account(place: Place) -> dict[str, str] | None:
    """The account that was made for this node, by the note that is written before it is."""
    try:
        with open(place.account, encoding="utf-8") as file:
            noted = json.load(file)
        return {key: str(noted[key]) for key in ("namespace", "node")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CredentialsError(
            f"{place.account} can't be read: {problem}; it names the account that was minted"
        ) from None


@dataclass(frozen=True, slots=True)
class Put:
    """What became of the place."""

    changed: bool
    diff: dict[str, str]


def put(ledger: Ledger, place: Place, identity: Identity) -> Put:
    """Make the kubeconfig stand there, for root alone."""
    before = _shown(place)
    loosened = _own(ledger, place.kubeconfig)
    opened = _close_directory(ledger, place.directory)
    if identity.link:
        change = ledger.make_link(place.kubeconfig, identity.link)
    else:
        change = ledger.write_file(place.kubeconfig, identity.text().encode(), mode=0o600, whole=True, follow=False)
    after = _lines(describe(identity))
    if change.before_mode is not None and change.before_mode != change.after_mode:
        before, after = f"{before}mode: {change.before_mode:04o}\n", f"{after}mode: {change.after_mode:04o}\n"
    if opened:
        before, after = f"{before}{opened}", f"{after}directory mode: 0700\n"
    headers = {"before_header": place.kubeconfig, "after_header": place.kubeconfig}
    return Put(change.changed or loosened or bool(opened), {"before": before, "after": after, **headers})


def _own(ledger: Ledger, path: str) -> bool:
    """A kubeconfig of another owner becomes ours; whether it was."""
    state = look(path)
    if state.kind != "file" or (state.uid, state.gid) == (os.geteuid(), os.getegid()):
        return False
    if not ledger.check_mode:
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
    return True


def _close_directory(ledger: Ledger, path: str) -> str:
    """See that nobody else gets into it: what it was, if it was otherwise and is there."""
    state = look(path)
    if state.kind == "absent":
        ledger.note("directory", path, {"kind": "absent"}, {"kind": "directory"})
        if not ledger.check_mode:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            os.mkdir(path, 0o700)
        return ""
    if state.kind != "other" or not os.path.isdir(path):
        raise CredentialsError(f"{path} is no directory; move it away")
    if (state.mode, state.uid, state.gid) == (0o700, os.geteuid(), os.getegid()):
        return ""
    if not ledger.check_mode:
        os.chown(path, os.geteuid(), os.getegid())
        os.chmod(path, 0o700)
    return f"directory mode: {state.mode:04o}\n"


def _shown(place: Place) -> str:
    try:
        now = standing(place)
    except AccessError:
        return "(no kubeconfig that can be used)\n"
    return "" if now is None else _lines(describe(now))


def _lines(shown: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in shown.items())
