# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What `cri-resmgr` can beside running: draw the machine, and forget."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path
from typing import Any

from colocation.common import settings, status_client
from colocation.cri_proxy import effect, picture, state, topology
from colocation.cri_proxy.cgroups import Cgroups
from colocation.cri_proxy.config import Config, plain_path
from colocation.cri_proxy.cpus import of, show


def add(parser: argparse.ArgumentParser, commands: Any) -> None:
    """Add the commands; cri-resource-manager had the last two as options, and so have we."""
    drawn = commands.add_parser("topology", help="show sockets, NUMA nodes and CCXs with the containers on them")
    drawn.add_argument("--config", default=argparse.SUPPRESS, metavar="FILE", help="which configuration is in force")
    form = drawn.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--svg", action="store_true", help="as a picture; into a file: --svg > topology.svg")
    drawn.add_argument(
        "--sysfs-root", metavar="FOLDER", help="another machine's files, under FOLDER/sys/devices/system"
    )
    drawn.set_defaults(act=draw)
    tried = commands.add_parser("effect", help="measure what it is worth to keep two processes on caches of their own")
    tried.add_argument("--config", default=argparse.SUPPRESS, metavar="FILE", help="which configuration is in force")
    tried.set_defaults(act=try_out)
    parser.add_argument(
        "--reset-policy",
        dest="act",
        action="store_const",
        const=reset_policy,
        help="give running containers all CPUs back and forget their places; the service must be stopped",
    )
    parser.add_argument(
        "--reset-config",
        dest="act",
        action="store_const",
        const=reset_config,
        help="there is no copy of the configuration to forget; here for scripts that call it",
    )


def draw(asked: argparse.Namespace) -> int:
    """The machine, and the containers if the service runs."""
    config = settings.read(Config, asked.config)
    try:
        machine = topology.read(topology.Folder(Path(asked.sysfs_root or config.sysfs_root)), config.placement.ccx)
    except topology.NoTopology as problem:
        print(problem, file=sys.stderr)
        return 2
    containers = []
    try:
        containers = picture.shown_in(status_client.ask(config.status.address, config.status.port))
    except status_client.NoStatus as problem:
        print(f"Without containers: {problem}", file=sys.stderr)
    if asked.json:
        text = picture.to_json(machine, containers)
    elif asked.svg:
        text = picture.to_svg(machine, containers)
    else:
        text = picture.to_text(machine, containers, sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # `| head` has seen enough
    return 0


def try_out(asked: argparse.Namespace) -> int:
    """What placement is worth here; some seconds of two CPUs."""
    config = settings.read(Config, asked.config)
    try:
        where = effect.seats(topology.read(topology.Folder(Path(config.sysfs_root)), config.placement.ccx))
        print("Measuring for some seconds …", file=sys.stderr)
        print(effect.told(where, effect.measure(where)), end="")
    except effect.NoEffect as problem:
        print(f"Nothing to measure: {problem}.")
    except (topology.NoTopology, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


def reset_policy(asked: argparse.Namespace) -> int:
    """Undo all placements of containers that run, and forget them."""
    from colocation.cri_proxy.runtime import NOT_FOUND, Runtime, RuntimeFailed  # with protobuf

    config = settings.read(Config, asked.config)
    if _is_served(plain_path(config.listen)):
        print("The service runs and would place them again: systemctl stop cri-resource-manager first", file=sys.stderr)
        return 1
    remembered, problem = state.load(config.state_dir)
    if problem:
        print(problem, file=sys.stderr)
    ours = remembered.all_freed()
    runtime = Runtime(plain_path(config.runtime))
    try:
        machine = topology.read(topology.Folder(Path(config.sysfs_root)))
        running = {container.id for container in runtime.containers() if container.alive}
    except (topology.NoTopology, RuntimeFailed) as trouble:
        print(f"Nothing was changed: {trouble}", file=sys.stderr)
        return 1
    if not state.is_saved(config.state_dir) or problem:
        return _without_record(Cgroups(config.cgroup_dir), running, machine.online)
    online, nodes = show(machine.online), show(of(machine.memory_kib))
    failed = 0
    for key in sorted(running & set(ours)):
        try:
            runtime.set_cpus(key, online, nodes if ours[key].mems else "")
            print(f"{ours[key].name}: all CPUs")
        except RuntimeFailed as trouble:
            if trouble.status != NOT_FOUND:
                failed += 1
                print(f"{ours[key].name}: {trouble}", file=sys.stderr)
    if failed:
        return 1  # the record is kept for the next try
    state.remove(config.state_dir)
    print("All places are forgotten.")
    return 0


def _without_record(cgroups: Cgroups, running: set[str], online: int) -> int:
    """Who placed those that do not run everywhere is not known, so they are only counted."""
    places = cgroups.containers()
    found = {key: cgroups.effective(places[key]) for key in running & set(places)}
    held = sum(cpus is not None and cpus != online for cpus in found.values())
    if not held:
        print("Nothing is placed.")
        return 0
    print(f"There is no record of what was placed; {held} containers run on less than all CPUs.", file=sys.stderr)
    return 1


def reset_config(asked: argparse.Namespace) -> int:
    """Nothing to do."""
    print(f"No configuration is kept beside {asked.config}; there is nothing to forget.")
    return 0


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.settimeout(2)
        try:
            wire.connect(path)
        except OSError:
            return False
    return True
