# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations


class ModuleDocFragment:
    """What the attributes mean; each module says how far it supports them."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and return changed status without changing anything.
  diff_mode:
    description: Shows what changes when run with C(--diff).
  idempotent:
    description: A second run with the same options changes nothing.
"""
