# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Packs the agents for a node on the controller, and copies them only if the node does not have them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_install import full, space_needed
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_options import ARGUMENTS, ON_THE_NODE
from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_releases import (
    Plan,
    View,
    lacks_room,
    plan,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_build import (
    Archive,
    BuildFailed,
    archive_for,
    default_cache,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_pip import (
    PipFailed,
    Source,
    fill,
    find_pip,
)
from ansible_collections.colocation.kubernetes.plugins.plugin_utils._agent_target import (
    NoTarget,
    Target,
    choose_target,
    parse_targets,
)

MODULE = "colocation.kubernetes.agent_release"
OURS = Path(__file__).resolve().parents[2] / "files" / "agents"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        dummy, options = self.validate_argument_spec(ARGUMENTS)
        self.task_vars = task_vars or {}
        self.options = options
        self.seconds: dict[str, float] = {}
        try:
            if options["state"] == "absent":
                return result | self._on_the_node()
            return result | self._present()
        except (BuildFailed, PipFailed, NoTarget) as problem:
            raise AnsibleActionFail(str(problem)) from problem

    def _present(self) -> dict[str, Any]:
        targets = self._targets()
        with self._timed("look"):
            seen = self._on_the_node({"pythons": sorted({target.python for target in targets}, key=_minor)})
        if seen.get("failed") or seen.get("unreachable"):
            return _explained(seen)
        interpreter, view = seen["interpreter"], View.from_json(seen["view"])
        target = choose_target(targets, interpreter["python"], interpreter["architecture"])
        _check_glibc(interpreter, target)
        with self._timed("archive"):
            archive = self._archive(target)
        release = archive.release
        todo = plan(view, release.id, release.python, release.architecture, self.options["keep"])
        result: dict[str, Any] = {
            "changed": todo.changes,
            "installed": todo.install,
            "removed": list(todo.remove),
            "release": release.id,
            "record": release.to_json(),
            "interpreter": interpreter["path"],
            "archive": {"bytes": archive.bytes, "made": archive.made},
            "seconds": self.seconds,
            "diff": _diff(self.options["root"], view, todo, release.id),
        }
        if todo.replaces:
            result["warnings"] = [f"release {release.id} is installed anew: {todo.replaces}"]
        if lacks_room(view, todo, space_needed(release)):
            raise AnsibleActionFail(full(self.options["root"], space_needed(release), view.free))
        if not todo.changes or self._task.check_mode:
            return result
        done = self._settle(archive, todo, interpreter["path"])
        if done.get("failed") or done.get("unreachable"):
            return done
        return result | {key: done[key] for key in ("changed", "installed", "removed")}

    def _targets(self) -> tuple[Target, ...]:
        file = self._source() / "targets.yml"
        try:
            return parse_targets(yaml.safe_load(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, yaml.YAMLError) as problem:
            raise AnsibleActionFail(f"{file} can't be read: {problem}") from problem

    def _source(self) -> Path:
        return Path(self.options["source"]).expanduser() if self.options["source"] else OURS

    def _archive(self, target: Target) -> Archive:
        options = self.options
        wheels = os.path.abspath(os.path.expanduser(options["wheel_dir"])) if options["wheel_dir"] else ""
        if wheels and not os.path.isdir(wheels):
            raise AnsibleActionFail(f"agent_runtime_wheel_dir is {wheels}, which is no directory on the controller")
        cache = Path(options["cache_dir"]).expanduser() if options["cache_dir"] else default_cache(os.environ)
        lock = (self._source() / "locks" / target.lock).resolve()

        def with_pip(tree: Path) -> None:
            fill(tree, target, lock, find_pip(options["pip"]), Source(options["index"], wheels), os.environ)

        return archive_for(self._source(), target, cache.absolute(), with_pip)

    def _settle(self, archive: Archive, todo: Plan, interpreter: str) -> dict[str, Any]:
        self.options["interpreter"] = interpreter
        order: dict[str, Any] = {"release": archive.release.to_json()}
        if todo.install:
            with self._timed("copy"):
                order |= {"archive": self._copy(archive), "sha256": archive.sha256}
        with self._timed("install"):
            return self._on_the_node(order)

    def _copy(self, archive: Archive) -> str:
        """Bring the archive into Ansible's temporary directory on the node, which is removed after the task."""
        place = self._make_tmp_path()
        asked = self._low_level_execute_command(f"df -Pk {self._connection._shell.quote(place)}", sudoable=False)
        room = re.search(r"\s(\d+)\s+\d+%\s", asked.get("stdout", ""))
        if room and int(room[1]) * 1024 < archive.bytes:
            raise AnsibleActionFail(
                f"there is too little space for the agents' archive in {place}: {archive.bytes} bytes are needed and "
                f"{int(room[1]) * 1024} are free; ansible_remote_tmp names another place"
            )
        path: str = self._connection._shell.join_path(place, "agents.tar.gz")
        try:
            self._transfer_file(archive.path, path)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as problem:
            raise AnsibleActionFail(f"the agents' archive can't be copied to {path}: {problem}") from problem
        self._fixup_perms2([place, path])
        return path

    def _on_the_node(self, order: dict[str, Any] | None = None) -> dict[str, Any]:
        arguments = {name: self.options[name] for name in ON_THE_NODE} | {"order": order or {}}
        found: dict[str, Any] = self._execute_module(MODULE, module_args=arguments, task_vars=self.task_vars)
        return found

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - began, 2)


def _minor(python: str) -> list[int]:
    return [int(part) for part in python.split(".")]


def _check_glibc(interpreter: dict[str, Any], target: Target) -> None:
    if tuple(interpreter["glibc"]) < target.glibc:
        wanted = ".".join(str(part) for part in target.glibc)
        has = ".".join(str(part) for part in interpreter["glibc"])
        said = f"glibc {has}" if has else "another C library than glibc"
        raise AnsibleActionFail(f"the agents' packages need glibc {wanted} or later, and the node has {said}")


def _explained(seen: dict[str, Any]) -> dict[str, Any]:
    """A module that could not even start, in words."""
    if seen.get("rc") == 127 or "interpreter" in str(seen.get("msg", "")) and "module_stderr" in seen:
        said = " ".join(str(seen.get("module_stderr") or seen.get("module_stdout") or seen["msg"]).split())
        seen["msg"] = f"there is no Python on the node that modules can run with ({said}); install python3"
    return seen


def _diff(root: str, view: View, todo: Plan, release: str) -> dict[str, str]:
    before = sorted(found.id for found in view.installed)
    after = sorted({release, *before} - set(todo.remove))

    def shown(names: list[str], current: str) -> str:
        lines = [f"releases/{name}\n" for name in names]
        return "".join(lines) + (f"current -> releases/{current}\n" if current else "")

    return {
        "before": shown(before, view.current),
        "after": shown(after, release if todo.link else view.current),
        "before_header": root,
        "after_header": root,
    }
