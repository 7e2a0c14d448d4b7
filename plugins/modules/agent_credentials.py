#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: agent_credentials
short_description: The kubeconfig of a node's agents
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Puts a kubeconfig at C(credentials/kubeconfig) under O(state_dir), mode C(0600) in a directory of mode C(0700).
  - With O(source=kubelet) it points at the certificate that the kubelet rotates, so it is right after each rotation
    without another run. Where the kubelet's own kubeconfig holds its key itself, a link to that file stands there, so
    that there is no second copy of the key.
  - Before anything is written the API server is asked from the node, with these credentials, for whom it takes them
    and whether they may do what the agents do. When it can't be reached, or does not take them, or a right is missing,
    the module fails and what stood before stays.
  - A warning tells when a certificate or token should have been renewed, and who renews it.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
  - colocation.kubernetes.ledger
attributes:
  check_mode:
    support: full
    details: The credentials are tried in check mode too, for that changes nothing.
  diff_mode:
    support: full
    details: Source, server, authority, user and end; never a certificate, key or token.
  idempotent:
    support: full
options:
  source:
    description:
      - Where the identity comes from.
      - V(kubelet) is the kubelet's own, held to its node by the Node authorizer and NodeRestriction.
      - V(minted) is a token of an account that M(colocation.kubernetes.agent_account) made, at the API server that the
        kubelet uses.
      - V(admin) and V(file) are O(kubeconfig); V(admin) warns, for then a node has the keys of the whole cluster.
    type: str
    choices: [kubelet, minted, admin, file]
    default: kubelet
  kubeconfig:
    description:
      - The text of a kubeconfig that holds its certificates and keys itself, as
        M(colocation.kubernetes.kubeconfig_read) gives it.
      - Needed with O(source=admin) and O(source=file).
    type: str
  token:
    description:
      - With O(source=minted), the token, as M(colocation.kubernetes.agent_token) gives it.
      - Without it the token that stands there is used on.
      - An empty one says, in check mode alone, that another would be minted; then nothing is tried.
    type: str
  kubelet_kubeconfig:
    description: The kubelet's kubeconfig. Without it, that which the running kubelet was told to use.
    type: path
  server:
    description: Another address of the API server than that which the source names.
    type: str
  node_name:
    description:
      - The node's name in the API. Without it, that in the kubelet's certificate, else that by which the API server
        knows the kubelet, else that which the kubelet was told, else the host's name.
    type: str
  validate:
    description: Whether the API server is asked before anything is written.
    type: bool
    default: true
  warn_days:
    description:
      - Warn when fewer days are left.
      - What lives shortly is judged by its share, a tenth for the kubelet's certificate, half for all else.
    type: int
    default: 30
  timeout:
    description: Seconds for one answer of the API server.
    type: int
    default: 10
  owner:
    description: The name under which the ledger keeps the entry, usually a role's. This is not the file's owner.
    type: str
    default: credentials
seealso:
  - module: colocation.kubernetes.agent_credentials_info
  - module: colocation.kubernetes.node_restore
"""

EXAMPLES = r"""
- name: The agents are who the kubelet is
  colocation.kubernetes.agent_credentials:
    source: kubelet

- name: The agents have an identity that somebody else made
  colocation.kubernetes.agent_credentials:
    source: file
    kubeconfig: "{{ lookup('ansible.builtin.file', 'agents.kubeconfig') }}"
"""

RETURN = r"""
path:
  description: Where the kubeconfig is.
  returned: success
  type: str
  sample: /var/lib/colocation/credentials/kubeconfig
source:
  description: Where the identity comes from.
  returned: success
  type: str
  sample: kubelet
server:
  description: The API server's address in it.
  returned: success
  type: str
  sample: https://10.0.0.1:6443
user:
  description: For whom the API server takes it; empty where it was not asked and the credentials don't say.
  returned: success
  type: str
  sample: system:node:worker1
node:
  description: The node's name in the API.
  returned: success
  type: str
  sample: worker1
expires:
  description: When it ends; empty where a token does not say.
  returned: success
  type: str
  sample: "2027-04-01T09:30:00Z"
days_left:
  description: Days until then.
  returned: success
  type: float
  sample: 287.4
"""

import time
from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils import _validity
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_answer import ask, lacking, refusal
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_identity import (
    CredentialsError,
    Identity,
    days_left,
    given_identity,
    growing_old,
    kubelets_identity,
    minted_identity,
    require_time,
    validity,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import (
    ADMIN,
    FILE,
    KUBELET,
    MINTED,
    SOURCES,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_place import Place, put, standing
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_surroundings import Surroundings, look_around
from ansible_collections.colocation.kubernetes.plugins.module_utils._files import in_words
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger import Ledger, LedgerError
from ansible_collections.colocation.kubernetes.plugins.module_utils._ledger_options import STATE_DIR

ROOT = "/"  # tests put a directory here

ARGUMENTS = {
    "source": {"type": "str", "choices": list(SOURCES), "default": KUBELET},
    "kubeconfig": {"type": "str", "no_log": True},
    "token": {"type": "str", "no_log": True},
    "kubelet_kubeconfig": {"type": "path"},
    "server": {"type": "str"},
    "node_name": {"type": "str"},
    "validate": {"type": "bool", "default": True},
    "warn_days": {"type": "int", "default": 30},
    "timeout": {"type": "int", "default": 10},
    "owner": {"type": "str", "default": "credentials"},
    **STATE_DIR,
}
OWNS_THE_CLUSTER = (
    "{user} may do everything in the cluster, and its credentials stand on this node: whoever becomes root here owns "
    "the cluster. credentials_source=kubelet gives the agents what they need and no more."
)


def wanted(params: dict, around: Surroundings, place: Place) -> Identity | None:
    """The identity by the options; None where a token that is not there yet would be it."""
    source = params["source"]
    if source == KUBELET:
        identity = kubelets_identity(around.kubeconfig, around.certificates)
    elif source == MINTED:
        token = _standing_token(place) if params["token"] is None else params["token"]
        if not token:
            return None
        identity = minted_identity(around.kubeconfig, token)
    else:
        identity = given_identity(source, params["kubeconfig"])
    if params["server"]:
        # A link would keep the kubelet's address, and the key must not be copied.
        if identity.link:
            raise CredentialsError(f"{identity.link} holds its key itself, so its server can't be replaced by another")
        identity = replace(identity, access=replace(identity.access, server=params["server"]))
    return identity


def _standing_token(place: Place) -> str:
    try:
        now = standing(place)
    except AccessError:
        return ""
    return now.access.token.content if now is not None and now.source == MINTED else ""


def examine(module: AnsibleModule, identity: Identity, node: str) -> dict[str, object]:
    """What can be said of it, after it was tried; CredentialsError where it should not be used."""
    params, access, now = module.params, identity.access, time.time()
    found = validity(access)
    require_time(identity, found, now)
    user = found.user if found else ""
    if params["validate"]:
        try:
            patience = params["timeout"] if identity.source == MINTED else 0
            answer = ask(access, node, user, params["timeout"], patience)
        except ApiError as problem:
            raise CredentialsError(refusal(problem, identity.source, access.server)) from None
        user = answer.user
        if answer.missing:
            raise CredentialsError(lacking(answer, identity.source))
        if answer.everything:
            module.warn(OWNS_THE_CLUSTER.format(user=user))
    elif identity.source == ADMIN:
        module.warn(OWNS_THE_CLUSTER.format(user=user or "This identity"))
    old = growing_old(identity, found, params["warn_days"], now)
    if old:
        module.warn(old)
    expires = _validity.iso(found.ends) if found else ""
    return {"server": access.server, "user": user, "expires": expires, "days_left": days_left(found, now)}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("source", source, ["kubeconfig"]) for source in (ADMIN, FILE)],
    )
    place = Place(module.params["state_dir"])
    ledger = Ledger(module.params["state_dir"], module.params["owner"], module.check_mode)
    around = look_around(ROOT, module.params["kubelet_kubeconfig"], module.params["node_name"])
    result: dict[str, object] = {"path": place.kubeconfig, "source": module.params["source"], "node": around.node}
    try:
        identity = wanted(module.params, around, place)
        if identity is None:
            if module.check_mode:
                module.exit_json(changed=True, **result)
            raise CredentialsError("source minted needs a token, and none stands there from before")
        module.no_log_values.update(identity.access.secrets())
        result.update(examine(module, identity, around.node))
        done = put(ledger, place, identity)
    except (AccessError, CredentialsError, LedgerError) as problem:
        module.fail_json(msg=str(problem))
    except OSError as problem:
        module.fail_json(msg=in_words(problem, place.kubeconfig))
    if done.changed:
        result["diff"] = done.diff
    module.exit_json(changed=done.changed, **result)


if __name__ == "__main__":
    main()
