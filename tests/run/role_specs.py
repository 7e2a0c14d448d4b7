# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Compares each role's defaults with its argument specification: every public variable is in both.

A script of its own, for it needs PyYAML, which the engine does not have: `python role_specs.py roles`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml


def problems(role: Path) -> list[str]:
    """What differs in a role, each a sentence that names the file to mend."""
    specs_file = _one_of(role / "meta", "argument_specs")
    if specs_file is None:
        return [f"{role}/meta/argument_specs.yml is missing"]
    found = []
    defaults = _variables(role / "defaults")
    entry_points = _load(specs_file).get("argument_specs", {})
    of_points = [point.get("options") or {} for point in entry_points.values()]
    options = {name: option or {} for options in of_points for name, option in options.items()}
    for name in sorted(defaults.keys() - options.keys()):
        found.append(f"{specs_file}: {name} has a default in {role}/defaults, but no entry here")
    for name in sorted(options.keys() - defaults.keys()):
        if not options[name].get("required"):
            found.append(f"{role}/defaults: {name} is optional in {specs_file}, but has no default here")
    for name in sorted(options.keys() & defaults.keys()):
        if options[name].get("required"):
            found.append(f"{specs_file}: {name} is required, yet {role}/defaults gives it a value")
        elif "default" in options[name] and options[name]["default"] != defaults[name]:
            found.append(f"{specs_file}: {name} has the default {options[name]['default']!r}, not {defaults[name]!r}")
    return found


def _variables(directory: Path) -> dict[str, Any]:
    """The public variables of a role's defaults (a directory main/ may hold several files)."""
    main = _one_of(directory, "main")
    files = [main] if main else sorted((directory / "main").glob("*.y*ml"))
    merged: dict[str, Any] = {}
    for file in files:
        merged.update(_load(file))
    return {name: value for name, value in merged.items() if not name.startswith("_")}


def _one_of(directory: Path, stem: str) -> Path | None:
    return next((path for path in (directory / f"{stem}.yml", directory / f"{stem}.yaml") if path.is_file()), None)


def _load(file: Path) -> dict[str, Any]:
    content = yaml.safe_load(file.read_text())
    if not isinstance(content, dict | None):
        raise SystemExit(f"{file}: expected a mapping")
    return content or {}


def main(arguments: list[str]) -> int:
    """Check all roles of a directory."""
    roles = [path for path in sorted(Path(arguments[0]).glob("*")) if path.is_dir()]
    found = [problem for role in roles for problem in problems(role)]
    print("\n".join(found) or f"{len(roles)} roles agree with their argument specifications")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
