# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Scripts of scenarios as modules."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCENARIOS = Path(__file__).resolve().parents[3] / "molecule"


def loaded(script: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script with this path below molecule/, known until the test ends; nothing is written beside it."""
    loader = importlib.machinery.SourceFileLoader(f"scenario {script}", str(SCENARIOS / script))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, loader.name, made)
    loader.exec_module(made)
    return made
