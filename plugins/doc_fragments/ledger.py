# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations


class ModuleDocFragment:
    """The options of modules that keep a ledger, as `_ledger_options` has them."""

    # What every such module has: where the ledger is, and what lies beside it.
    DOCUMENTATION = r"""
options:
  state_dir:
    description: Directory on the node that holds the ledger, and the agents' records and credentials.
    type: path
    default: /var/lib/colocation
"""

    # And of those that write into it: in whose name.
    OWNER = r"""
options:
  owner:
    description:
      - The name under which the ledger keeps what was changed, usually a role's. This is not a file's owner.
    type: str
    default: node_prep
"""
