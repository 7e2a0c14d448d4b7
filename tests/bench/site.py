# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""site.yml over 1, 10 and 50 stand-ins for nodes: what the controller pays for each host.

The playbooks, roles, filters and ssh are real; the hosts are stand-ins (_standin_hosts.py). Told for each number of
hosts: tasks of a host, seconds, the controller's processor time without that of the connections that ssh keeps, and the
memory of its processes at most, each shared page counted once. Other numbers: `python site.py 1 5`.
"""

from __future__ import annotations

import contextlib
import json
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._findings import CHECKS
from ansible_collections.colocation.kubernetes.tests.bench._standin_hosts import StandinHosts, standin_module
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import ROOT, ansible_environment
from ansible_collections.colocation.kubernetes.tests.contract.doubled_collection import made_collection
from ansible_collections.colocation.kubernetes.tests.contract.site.healthy_answers import MOCK, healthy_answers
from ansible_collections.colocation.kubernetes.tests.unit.plugins.preflight_node import PreflightNode

HOSTS = (1, 10, 50)
FORKS = 25
SETTINGS = {
    "ANSIBLE_PIPELINING": "0",  # as users have it: the plays ask for it
    # Connections are kept, as Ansible does by itself where it is not told anything of ssh.
    "ANSIBLE_SSH_ARGS": "-C -o ControlMaster=auto -o ControlPersist=60s -F none -o StrictHostKeyChecking=no "
    "-o UserKnownHostsFile=/dev/null",
    "ANSIBLE_TIMEOUT": "60",
}
TARGET = 1.3  # a host of many costs at most so many times what one of ten does
ROLES = [path.name for path in (ROOT / "roles").iterdir()]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run."""

    hosts: int
    tasks: int  # of one host, skipped ones too
    seconds: float
    cpu: float  # seconds
    memory: float  # MiB

    def line(self) -> str:
        return (
            f"{self.hosts:3} hosts: {self.tasks} tasks each, {self.seconds:6.1f} s, {self.cpu:6.1f} s of processor "
            f"({self.cpu / self.hosts:.2f} s a host), {self.memory:.0f} MiB"
        )


def prepare(place: Path) -> None:
    """The collection with stand-ins for its modules."""
    facts = asdict(PreflightNode(place / "facts").facts()) | {"owners": []}
    answers = healthy_answers("stand-in", facts)
    modules = [path.stem for path in (ROOT / "plugins/modules").glob("[!_]*.py")]
    texts = {f"plugins/modules/{name}.py": standin_module(name, answers.get(name, {})) for name in modules}
    made_collection(place, ROLES, texts)


class MemoryWatch(threading.Thread):
    """Looks what a process and those that it started hold, until `stop`."""

    PAUSE = 0.5  # seconds

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self._highest = 0.0
        self.start()

    def run(self) -> None:
        while not self._ended.wait(self.PAUSE):
            self._highest = max(self._highest, sum(map(held, family(self._pid))))

    def stop(self) -> float:
        """MiB at most."""
        self._ended.set()
        self.join()
        return self._highest / 1024


def family(pid: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(entry.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, ())
    return found


def held(pid: int) -> int:
    """KiB of a process, of shared pages only its part."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(text.partition("\nPss:")[2].split(maxsplit=1)[0])
    return 0


def run(place: Path, hosts: StandinHosts, count: int) -> Cost:
    """One run over so many hosts, all in one batch."""
    nodes = {f"stand-in-{number:02}": hosts.variables(number) for number in range(count)}
    (place / "hosts.json").write_text(json.dumps({"kube_node": {"hosts": nodes}}))
    variables = {**MOCK, "colocation_serial": "100%", "preflight_skip": sorted(CHECKS), "verify_patience": 0}
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")), f"--inventory={place}/hosts.json", f"--forks={FORKS}",
        f"--extra-vars={json.dumps(variables)}", "colocation.kubernetes.site",
    ]  # fmt: skip
    sockets = str(place / "cp")  # connections to stand-ins of another run must not be found again
    environment = ansible_environment(place, place, **SETTINGS, ANSIBLE_SSH_CONTROL_PATH_DIR=sockets)
    before, began = used(), time.monotonic()
    with (place / "output").open("w+") as output:
        with subprocess.Popen(command, cwd=place, env=environment, stdout=output, stderr=output) as process:
            watch = MemoryWatch(process.pid)
        seconds, memory = time.monotonic() - began, watch.stop()
        output.seek(0)
        told = output.read()
    recap = re.search(r"^stand-in-00 +: ok=(\d+) .*skipped=(\d+)", told, re.MULTILINE)
    if process.returncode != 0 or recap is None:
        raise SystemExit(f"site.yml over {count} stand-ins failed:\n{told[-4000:]}")
    return Cost(count, int(recap[1]) + int(recap[2]), seconds, used() - before, memory)


def used() -> float:
    """Seconds of processor of all that we started and that has ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:]] or list(HOSTS)
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as folder:  # short, for the sockets of ssh
        place = Path(folder)
        prepare(place)
        hosts = StandinHosts(place, max(numbers))
        try:
            hosts.until_ready()
            costs = []
            for count in numbers:
                costs.append(run(place, hosts, count))
                print(costs[-1].line(), flush=True)
        finally:
            hosts.stop()
    few, many = costs[-2:] if len(costs) > 1 else costs * 2
    ratio = (many.cpu / many.hosts) / (few.cpu / few.hosts)
    verdict = "PASS" if ratio <= TARGET else "FAIL"
    each = f"a host of {many.hosts} costs {many.cpu / many.hosts:.2f} s of processor"
    print(f"site: {each}, {ratio:.2f} × one of {few.hosts} (target ≤ {TARGET} ×) {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
