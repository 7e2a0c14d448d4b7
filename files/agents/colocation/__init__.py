# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Agents that let batch work run on what online services leave idle.

Modules import downward only: an agent's shell, its core, `common`. Agents never import each other.
"""

from __future__ import annotations

__version__ = "0.1.0"
