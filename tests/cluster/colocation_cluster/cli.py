# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import containers
from .binaries import ETCD, KUBERNETES_MINORS, binary, containerd, kubernetes
from .breakages import BREAKAGES, UNSUITABLE
from .cache import locked_if_free
from .cluster import Cluster, known_clusters, saved_cluster
from .command import program
from .drill import drill
from .offered import offer
from .reach import inventory
from .rootfs import SUITES
from .say import ClusterError, tail
from .spec import SHAPES, ClusterSpec, NodeSpec, parse_node

KUBERNETES_PROGRAMS = (
    "kube-apiserver", "kubelet", "kubeadm", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl",
)  # fmt: skip
ALL_PROGRAMS = (
    "etcd",
    *(f"{name}@{minor}" for minor in KUBERNETES_MINORS for name in KUBERNETES_PROGRAMS),
    *(f"containerd@{minor}" for minor in ("1.7", "2.3")),
)
EPILOG = """\
examples:
  cluster up                                     one worker, Kubernetes 1.36, Debian 13
  cluster up --name b --node dhyana,memory=6G --node cxl,disk=1G
  cluster up --kubernetes 1.34 --suite bookworm
  cluster kubectl get nodes
  cluster ssh worker1 systemctl status kubelet
  cluster inventory --output inventory.yml && ansible-playbook -i inventory.yml playbooks/site.yml
  cluster break worker1 swap-file containerd-masked
  cluster down

node shapes: plain (2 processors, 2G), dhyana (8 processors, 2 NUMA nodes x 2 CCX, 4G), cxl (4 processors, 2G and a
2G NUMA node without processors). Settings: cpus=, memory=, far=, disk= (an empty disk, more than once), swap=,
suite= (another Debian than --suite says).
The cache is the folder that COLOCATION_CACHE names.
"""


def parser() -> argparse.ArgumentParser:
    """The words that can be said."""
    top = argparse.ArgumentParser(
        prog="cluster",
        description="A real Kubernetes cluster on this machine: native control plane, worker nodes in QEMU.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        command = verbs.add_parser(name, help=text, description=text)
        command.add_argument("--name", default="default", help="which cluster (default: %(default)s)")
        return command

    for name, text in (("up", "bring a cluster up"), ("save", "make the saved state that up uses, if it is missing")):
        command = verb(name, text)
        command.add_argument("--node", action="append", metavar="SHAPE", help=f"a worker: {', '.join(SHAPES)}; 1 to 3")
        command.add_argument("--kubernetes", default="1.36", choices=KUBERNETES_MINORS, help="default: %(default)s")
        command.add_argument("--suite", default="trixie", choices=SUITES, help="Debian (default: %(default)s)")
        command.add_argument("--containerd", default="debian", help="debian, or a minor to build: 1.7, 2.3")
        if name == "up":
            command.add_argument(
                "--owner",
                type=int,
                metavar="PID",
                default=os.environ.get("COLOCATION_OWNER"),
                help="take it down when this process ends (default: COLOCATION_OWNER)",
            )
            command.add_argument("--again", action="store_true", help="take a running cluster of that name down first")
    verb("down", "take a cluster down").add_argument("--all", action="store_true", help="every cluster")
    verb("status", "show the clusters, their nodes and processes").add_argument("--json", action="store_true")
    ssh = verb("ssh", "a shell, or a command, on a node")
    ssh.add_argument("node")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    for name, text in (("kubectl", "kubectl as the cluster's administrator"),
                       ("exec", "a program in the cluster's network, with KUBECONFIG set")):  # fmt: skip
        verb(name, text).add_argument("words", nargs=argparse.REMAINDER)
    verb("inventory", "an Ansible inventory of the cluster").add_argument("--output", type=Path, metavar="FILE")
    broken = verb("break", "break a node; without names: list what can be broken")
    broken.add_argument("node", nargs="?")
    broken.add_argument("how", nargs="*")
    load = verb("load", "import container images into a node")
    load.add_argument("node")
    load.add_argument("image", nargs="+", choices=list(containers.images()))
    offer = verb("offer", "let a node install Debian packages that its image does not have")
    offer.add_argument("node")
    offer.add_argument("package", nargs="+")
    reboot = verb("reboot", "restart a node's machine and wait until ssh answers")
    reboot.add_argument("node")
    blows = verb("drill", "strike a cluster at random while its pods come and go; the same seed strikes the same")
    blows.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    blows.add_argument("--seconds", type=float, default=120.0, help="how long (default: %(default)s)")
    blows.add_argument("--selector", required=True, help="whose pods are deleted meanwhile, one every few seconds")
    blows.add_argument("--namespace", default="default", help="where they are (default: %(default)s)")
    log = verb("log", "the console of a node, or the log of a control plane process")
    log.add_argument("process")
    built = verb("build", "build programs and print their paths: kubelet@1.36, containerd@2.3 …; without names, all")
    built.add_argument("program", nargs="*")
    return top


def main(words: Sequence[str]) -> int:
    """Do what the words say; the exit code."""
    options = parser().parse_args(words)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,49}", options.name):
        print(f"cluster: a name has small letters, digits and dashes, not {options.name!r}", file=sys.stderr)
        return 2
    try:
        return int(globals()[f"_{options.verb}"](options, Cluster(options.name)) or 0)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted", file=sys.stderr)
        return 130


def _spec(options: argparse.Namespace) -> ClusterSpec:
    nodes = tuple(parse_node(text) for text in options.node or ()) or (NodeSpec(),)
    if len(nodes) > 3:
        raise ClusterError("three workers at the most")
    return ClusterSpec(nodes, options.kubernetes, options.suite, options.containerd)


def _up(options: argparse.Namespace, cluster: Cluster) -> None:
    forget_ended(known_clusters())
    if options.again:
        cluster.down()
    cluster.up(_spec(options), options.owner)


def forget_ended(clusters: Iterable[Cluster]) -> None:
    """Remove what runs that were killed left: a cluster that has ended can't be had again, and takes gigabytes."""
    for each in clusters:
        with locked_if_free(each.folder) as free:  # or somebody brings it up or takes it down
            if free and each.world.pid is None:
                each.world.close()


def _save(options: argparse.Namespace, _cluster: Cluster) -> None:
    saved_cluster(_spec(options))


def _down(options: argparse.Namespace, cluster: Cluster) -> None:
    for each in known_clusters() if options.all else [cluster]:
        each.down()


def _status(options: argparse.Namespace, _cluster: Cluster) -> None:
    facts = [_facts(each) for each in known_clusters()]
    if options.json:
        print(json.dumps(facts, indent=1))
    elif not facts:
        print("no cluster; make one: cluster up")
    for fact in facts if not options.json else ():
        print(f"{fact['name']}: {fact['state']}, Kubernetes {fact['kubernetes']}, {', '.join(fact['nodes'])}")
        for name, status in fact["processes"].items():
            print(f"  {name}: {'runs' if status is None else f'ended with {status}'}")


def _facts(cluster: Cluster) -> dict[str, Any]:
    fact: dict[str, Any] = {"name": cluster.name, "state": "ended", "kubernetes": "?", "nodes": [], "processes": {}}
    try:
        spec = cluster.spec
        fact.update(kubernetes=spec.kubernetes, nodes=list(spec.names()))
        if cluster.world.pid is not None:
            fact.update(state="runs", processes=cluster.world.ask({"status": {}}))
    except ClusterError as error:
        fact["state"] = str(error)
    return fact


def _ssh(options: argparse.Namespace, cluster: Cluster) -> None:
    command = " ".join(options.command) or None
    argv = cluster.ssh_argv(options.node, command)
    os.execv(argv[0], argv)


def _kubectl(options: argparse.Namespace, cluster: Cluster) -> None:
    control_plane = cluster.control_plane()
    _enter(cluster, [str(control_plane.program("kubectl")), *options.words])


def _exec(options: argparse.Namespace, cluster: Cluster) -> None:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise ClusterError("say what to run: cluster exec COMMAND…")
    _enter(cluster, [program(words[0]), *words[1:]])


def _enter(cluster: Cluster, argv: list[str]) -> None:
    argv = cluster.world.inside(argv)
    os.execve(argv[0], argv, {**os.environ, "KUBECONFIG": str(cluster.control_plane().admin)})


def _inventory(options: argparse.Namespace, cluster: Cluster) -> None:
    text = json.dumps(inventory(cluster), indent=2) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


def _break(options: argparse.Namespace, cluster: Cluster) -> None:
    known = {**{name: breakage.simulates for name, breakage in BREAKAGES.items()},
             "node-deleted": "The Node object is deleted from the API."}  # fmt: skip
    if not options.node or not options.how:
        for name, text in known.items():
            print(f"{name}\n    {text}")
        return
    for name in options.how:
        if name not in known:
            raise ClusterError(f"no way to break called {name!r}; there are {', '.join(known)}")
    for name in options.how:
        break_node(cluster, options.node, name)


def break_node(cluster: Cluster, node: str, name: str) -> None:
    """Break a node and prove that it is broken."""
    if name == "node-deleted":
        cluster.kubectl("delete", "node", cluster.machine(node).name)
        return
    breakage = BREAKAGES[name]
    try:
        cluster.ssh(node, "bash -s", stdin=breakage.script)
    except ClusterError as error:
        hint = " (this node can't be broken that way)" if f"exit {UNSUITABLE}\n" in f"{error}\n" else ""
        raise ClusterError(f"break {name}{hint}: {error}") from None
    cluster.ssh(node, "bash -s", stdin=breakage.check, limit=240)


def _load(options: argparse.Namespace, cluster: Cluster) -> None:
    for name in options.image:
        load_image(cluster, options.node, name)


def load_image(cluster: Cluster, node: str, name: str) -> None:
    """Import an image into a node's containerd."""
    argv = cluster.ssh_argv(node, "ctr -n k8s.io images import -")
    with containers.archive(name, cluster.spec.kubernetes).open("rb") as tar:
        done = subprocess.run(argv, stdin=tar, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise ClusterError(f"{node}: import {name}: {done.stdout}{done.stderr}")


def _offer(options: argparse.Namespace, cluster: Cluster) -> None:
    offer(cluster, options.node, options.package)


def _reboot(options: argparse.Namespace, cluster: Cluster) -> None:
    cluster.reboot(options.node)


def _drill(options: argparse.Namespace, cluster: Cluster) -> int:
    count = drill(cluster, options.seed, options.seconds, options.selector, options.namespace)
    print("\n".join([*count.lines(), f"{count.deleted} pods deleted"]))
    if problems := count.failures():
        print("\n".join(f"cluster: {problem}" for problem in problems), file=sys.stderr)
    return int(bool(problems))


def _log(options: argparse.Namespace, cluster: Cluster) -> None:
    names = [f"{options.process}.console", f"{options.process}.log"]
    for name in names:
        path = cluster.folder / name
        if path.exists():
            print(tail(path, 200))
            return
    raise ClusterError(f"no log of {options.process!r} in cluster {cluster.name}")


def _build(options: argparse.Namespace, _cluster: Cluster) -> None:
    for word in options.program or ALL_PROGRAMS:
        name, _at, minor = word.partition("@")
        if name.startswith("containerd") or name == "ctr":
            print(binary(containerd(minor or "2.3"), name))
        elif name == "etcd":
            print(binary(ETCD, "etcd"))
        else:
            print(binary(kubernetes(minor or "1.36"), name))
