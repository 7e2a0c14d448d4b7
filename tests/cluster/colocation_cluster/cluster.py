# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A whole cluster: up, down, ssh, kubectl.

A cluster of a given shape is booted and joined once; the joined machines and the API's data are saved, and
every `up` hands out a copy of that in seconds.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from subprocess import PIPE

from .cache import cache_dir, content_key, locked, made_once
from .command import program
from .controlplane import ControlPlane
from .machine import Machine, hypervisor
from .node_image import NodeImage, node_image
from .say import ClusterError, phase, wait_until
from .spec import ClusterSpec, NodeSpec
from .world import World, node_address

SAVED_DAYS = 60  # a saved cluster's certificates live for a year; it is made anew long before
JOIN = """
set -e
mkdir -p /var/lib/kube-proxy
cat > /var/lib/kube-proxy/kubeconfig <<'END'
{proxy}
END
for tar in /usr/local/share/images/*.tar; do ctr -n k8s.io images import "$tar" >/dev/null; done
{join} --node-name {name} --cri-socket unix:///run/containerd/containerd.sock 2>&1
systemctl start kube-proxy
"""
SWAP = "mkswap -q {0} && swapon {0} && echo '{0} none swap sw 0 0' >> /etc/fstab"


class Cluster:
    """A cluster by name; whether it runs, its folder tells."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self.folder = folder or cache_dir() / "clusters" / name
        self.world = World(self.folder)

    # -- life ---------------------------------------------------------------------------------------------

    def up(self, spec: ClusterSpec, owner: int | None = None) -> None:
        """Bring the cluster up from its saved state; `owner`: a process whose end ends the cluster too."""
        saved = saved_cluster(spec)
        with locked(self.folder):
            if self.world.pid is not None:
                raise ClusterError(f"cluster {self.name} runs already; take another --name or: cluster down")
            self.world.close()
            with phase(f"cluster {self.name} from its saved state"):
                try:
                    self._restore(spec, saved, owner)
                except BaseException:
                    self.world.close()
                    raise

    def _restore(self, spec: ClusterSpec, saved: Path, owner: int | None) -> None:
        images = node_images(spec)
        self.world.open(owner)
        self._describe(spec, images)
        shutil.copytree(saved / "control-plane", self.folder / "control-plane")
        machines = self.machines(spec)
        for machine in machines:
            machine.overlay_saved(saved)
            machine.boot(images[machine.name], saved / f"{machine.name}.state")
        began = datetime.datetime.now(datetime.timezone.utc)
        self.control_plane(spec).start()
        for machine in machines:
            machine.resume()
        together(machines, self._catch_up)
        self.wait_ready(spec.names(), began)

    def _catch_up(self, machine: Machine) -> None:
        """A restored machine's clock stood still; that it can be set is the sign that the machine runs."""
        wait_until(f"the clock of {machine.name}", lambda: self._set_clock(machine.name), 240, machine.explain)

    def _set_clock(self, node: str) -> bool:
        """Say the time only when the shell is there to hear it: getting there takes seconds on a busy machine."""
        command = "echo ready; read -r now && date -u -s @$now >/dev/null"
        argv = self.ssh_argv(node, command)
        with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            if process.stdout and process.stdout.readline() == "ready\n":
                process.communicate(f"{time.time():.2f}\n")
            else:
                process.communicate()
        return process.returncode == 0

    def create(self, spec: ClusterSpec, target: Path) -> None:
        """Boot and join a new cluster and save it to `target`."""
        images = node_images(spec)
        try:
            self.world.open(os.getpid())
            self._describe(spec, images)
            control_plane = self.control_plane(spec)
            control_plane.prepare()
            machines = self.machines(spec)
            for machine in machines:
                machine.make_disks(images[machine.name])
                machine.boot(images[machine.name])
            control_plane.start()
            control_plane.publish()
            with phase(f"boot {len(machines)} node(s)"):
                for machine in machines:
                    self.wait_ssh(machine.name, 420)
            began = datetime.datetime.now(datetime.timezone.utc)
            with phase(f"join {len(machines)} node(s)"):
                together(machines, lambda machine: self._join(machine, control_plane))
                self.wait_ready(spec.names(), began)
            self._save(machines, control_plane, target)
        finally:
            self.world.close()

    def _join(self, machine: Machine, control_plane: ControlPlane) -> None:
        swap = SWAP.format(f"/dev/vd{'abcdefgh'[len(machine.disks) - 1]}") if machine.spec.swap else ""
        script = JOIN.format(
            proxy=(control_plane.folder / "kube-proxy.conf").read_text(),
            join=control_plane.join_command(),
            name=machine.name,
        )
        try:
            self.ssh(machine.name, "sh -s", stdin=script, limit=360)
        except ClusterError as error:
            raise ClusterError(f"{error}\n{self._why_not_ready(machine.name)}") from None
        if swap:
            self.ssh(machine.name, swap)

    def _save(self, machines: Iterable[Machine], control_plane: ControlPlane, target: Path) -> None:
        with phase("save the cluster"):
            target.mkdir()
            for machine in machines:
                self.ssh(machine.name, "sync")
                machine.pause()
            control_plane.stop()
            for machine in machines:
                machine.save(target)
            control_plane.save(target / "control-plane")

    def down(self) -> None:
        """End it and forget it; a cluster that is not there is down already."""
        with locked(self.folder):
            self.world.close()

    # -- use ----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> ClusterSpec:
        try:
            values = json.loads((self.folder / "spec.json").read_text())
        except (OSError, ValueError):
            raise ClusterError(f"there is no cluster {self.name}; see: cluster status") from None
        nodes = tuple(NodeSpec(**{**node, "disks": tuple(node["disks"])}) for node in values.pop("nodes"))
        return ClusterSpec(nodes=nodes, **values)

    def _describe(self, spec: ClusterSpec, images: dict[str, NodeImage]) -> None:
        (self.folder / "spec.json").write_text(json.dumps(dataclasses.asdict(spec), indent=1))
        (self.folder / "images").mkdir()
        for name, image in images.items():
            (self.folder / "images" / name).symlink_to(image.folder)

    def control_plane(self, spec: ClusterSpec | None = None) -> ControlPlane:
        return ControlPlane(self.world, self.folder / "control-plane", (spec or self.spec).kubernetes)

    def machines(self, spec: ClusterSpec | None = None) -> list[Machine]:
        spec = spec or self.spec
        count = len(spec.nodes)
        return [
            Machine(self.world, name, index, count, node)
            for index, (name, node) in enumerate(zip(spec.names(), spec.nodes, strict=True), 1)
        ]

    def machine(self, name: str) -> Machine:
        for machine in self.machines():
            if machine.name == name:
                return machine
        raise ClusterError(f"cluster {self.name} has no node {name}; it has {', '.join(self.spec.names())}")

    def image(self, node: str) -> NodeImage:
        """The image that a node was made from; not the one that the recipes would make by now."""
        return NodeImage(Path(os.readlink(self.folder / "images" / self.machine(node).name)))

    def ssh_options(self, node: str) -> list[str]:
        return [
            "-i", str(self.image(node).ssh_key), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
            "-F", "none",
        ]  # fmt: skip

    def ssh_argv(self, node: str, command: str | None = None) -> list[str]:
        """The command line that opens a shell on a node, or runs a command there."""
        address = node_address(self.machine(node).index)
        argv = [program("ssh"), *self.ssh_options(node), f"root@{address}"]
        return self.world.inside([*argv, *([command] if command is not None else [])])

    def ssh(self, node: str, command: str, *, stdin: str | None = None, limit: float = 120) -> str:
        """Run a command on a node to success; its output."""
        try:
            done = subprocess.run(
                self.ssh_argv(node, command), input=stdin if stdin is not None else "", capture_output=True, text=True,
                timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{node}: {command!r} did not end within {limit:.0f} s") from None
        if done.returncode != 0:
            raise ClusterError(f"{node}: {command!r}: exit {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
        return done.stdout

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self.control_plane().kubectl(*words, stdin=stdin)

    def wait_ssh(self, node: str, limit: float = 180) -> None:
        machine = self.machine(node)

        def answers() -> bool:
            if not self.world.runs(node):
                raise ClusterError(f"{node}: QEMU ended\n{machine.explain()}")
            try:
                self.ssh(node, "true", limit=30)
            except ClusterError:
                return False
            return True

        wait_until(f"ssh to {node}", answers, limit, machine.explain)

    def reboot(self, node: str) -> None:
        """Restart the machine and wait until it answers again."""
        boot = "cat /proc/sys/kernel/random/boot_id"
        before = self.ssh(node, boot)
        self.ssh(node, "systemctl reboot")

        def is_new() -> bool:
            try:
                return self.ssh(node, boot, limit=30) != before
            except ClusterError:
                return False

        with phase(f"reboot {node}"):
            wait_until(f"ssh to {node} after its reboot", is_new, 240, self.machine(node).explain, 0.5)

    def wait_ready(self, names: Iterable[str], since: datetime.datetime, limit: float = 240) -> None:
        """Wait until each node is Ready and its kubelet has renewed its lease since then."""

        def ready(name: str) -> bool:
            try:
                node = json.loads(self.kubectl("get", "node", name, "-o", "json"))
                lease = json.loads(self.kubectl("-n", "kube-node-lease", "get", "lease", name, "-o", "json"))
            except ClusterError:
                return False
            renewed = datetime.datetime.fromisoformat(lease["spec"]["renewTime"].replace("Z", "+00:00"))
            conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", ())}
            return conditions.get("Ready") == "True" and renewed >= since

        for name in names:
            wait_until(f"node {name} Ready", lambda: ready(name), limit, lambda: self._why_not_ready(name), 0.5)  # noqa: B023

    def _why_not_ready(self, node: str) -> str:
        try:
            conditions = self.kubectl("describe", "node", node)
            journal = self.ssh(node, "journalctl -b --no-pager -n 20 -u kubelet -u containerd", limit=60)
        except ClusterError as error:
            return f"{error}\n{self.machine(node).explain()}"
        return f"{conditions}\n{journal}"


def together(machines: Iterable[Machine], call: Callable[[Machine], None]) -> None:
    """Do something to all machines at once; the first error is raised when all have ended."""
    errors: list[BaseException] = []

    def guarded(machine: Machine) -> None:
        try:
            call(machine)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def node_images(spec: ClusterSpec) -> dict[str, NodeImage]:
    """The image of each node; most have the same."""
    suites = zip(spec.names(), (node.suite or spec.suite for node in spec.nodes), strict=True)
    return {name: node_image(suite, spec.kubernetes, spec.containerd) for name, suite in suites}


def saved_cluster(spec: ClusterSpec) -> Path:
    """The folder of the saved cluster of this shape; made when there is none, or when it is too old."""
    images = node_images(spec)
    sources = Path(__file__).parent
    key = content_key(
        json.dumps(dataclasses.asdict(spec), sort_keys=True),
        *(image.folder.name for image in images.values()),
        hypervisor(),
        *(sources / name for name in ("cluster.py", "controlplane.py", "machine.py", "world.py")),
    )
    target = cache_dir() / "saved" / key
    if target.exists() and time.time() - target.stat().st_mtime > SAVED_DAYS * 86400:
        with locked(target):
            shutil.rmtree(target, ignore_errors=True)
    what = f"boot, join and save {len(spec.nodes)} node(s) of Kubernetes {spec.kubernetes}"
    return made_once(target, lambda product: Cluster("seed", product.parent / "world").create(spec, product), what)


def known_clusters() -> list[Cluster]:
    """All clusters that have a folder, running or not."""
    folder = cache_dir() / "clusters"
    return [Cluster(path.name) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []
