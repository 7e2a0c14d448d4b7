# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations


class ModuleDocFragment:
    """The files that go from a rejoining host to the saved state and back, as `_rejoin_options` has them."""

    DOCUMENTATION = r"""
options:
  files:
    description: The files of the host that a reset would lose, for the steps V(begin) and V(join). They may be secret.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where it belongs.
        type: str
        required: true
      content:
        description: What is in it, in base64.
        type: str
        required: true
      mode:
        description: Its permissions, as a number.
        type: int
        default: 384
      uid:
        description: Its owner.
        type: int
        default: 0
      gid:
        description: Its group.
        type: int
        default: 0
"""
