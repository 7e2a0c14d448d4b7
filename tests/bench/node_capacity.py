# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""node_capacity: one call for a hundred nodes against one call for one, with a real API server, and what an ad-hoc call
takes beside Ansible's own ping.

A call is a module's process, as Ansible runs it: with the start of Python, the connection and all requests. Both kinds
alternate, and the medians are compared.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_plan import make_wish
from ansible_collections.colocation.kubernetes.plugins.module_utils._capacity_run import CapacityRun
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.modules import node_capacity
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer

NODES = 100
ROUNDS = 7
TARGET = 10.0
COLLECTIONS = Path(node_capacity.__file__).parents[5]


def seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def run_module(config: Path, names: list[str], amount: int) -> None:
    """The module as a process of its own, with its arguments as Ansible gives them."""
    arguments = {"node": names, "resources": {"mock.com/gpu": amount}, "kubeconfig": str(config)}
    done = subprocess.run(
        [sys.executable, node_capacity.__file__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
        text=True,
    )
    answer = json.loads(done.stdout or "{}")
    changed = [one["node"] for one in answer.get("results", []) if one["changed"]]
    if changed != names:
        raise SystemExit(f"{len(changed)} of {len(names)} nodes were changed: {answer.get('msg')} {done.stderr}")


def ad_hoc(place: Path, *words: str) -> None:
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_HOME": str(place / "ansible"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    program = str(Path(sys.executable).with_name("ansible"))
    subprocess.run([program, "localhost", *words], capture_output=True, check=True, env=environment)


def measure(server: ApiServer, place: Path) -> float:
    kubeconfig = server.kubeconfig()
    config = place / "kubeconfig"
    config.write_text(json.dumps(kubeconfig))
    (place / "ansible.cfg").write_text("[defaults]\n")
    names = [f"n{number:03}" for number in range(NODES)]
    with KubeClient(find_access({"kubeconfig": kubeconfig})) as client:
        for name in names:
            metadata = {"name": name, "labels": {"bench": "yes"}}
            client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        times: list[list[float]] = [[] for _kind in range(6)]
        one, many, inner_one, inner_many, ours, ping = times
        for amount in range(1, ROUNDS + 1):
            one.append(seconds(lambda: run_module(config, names[:1], amount)))  # noqa: B023
            many.append(seconds(lambda: run_module(config, names[1:] + ["n000"], amount + 1000)))  # noqa: B023
            wish = make_wish("present", {"mock.com/gpu": amount + 2000})
            inner_one.append(seconds(lambda: CapacityRun(client, wish).run({names[0]: None})))  # noqa: B023
            inner_many.append(seconds(lambda: CapacityRun(client, wish).run(dict.fromkeys(names[1:]))))  # noqa: B023
        for amount in range(1, 4):
            arguments = json.dumps(
                {"node": names[0], "resources": {"mock.com/gpu": amount + 3000}, "kubeconfig": str(config)}
            )
            ours.append(seconds(lambda: ad_hoc(place, "-m", "colocation.kubernetes.node_capacity", "-a", arguments)))  # noqa: B023
            ping.append(seconds(lambda: ad_hoc(place, "-m", "ansible.builtin.ping")))
    first, hundred = statistics.median(one), statistics.median(many)
    print(f"one call: 1 node {first * 1000:.0f} ms, {NODES} nodes {hundred * 1000:.0f} ms (medians of {ROUNDS})")
    small, large = statistics.median(inner_one), statistics.median(inner_many)
    print(
        f"its requests alone, on connections that stand: 1 node {small * 1000:.1f} ms, {NODES - 1} nodes "
        f"{large * 1000:.0f} ms, {large / small:.0f} times as long"
    )
    mine, base = statistics.median(ours), statistics.median(ping)
    print(f"ad hoc: node_capacity {mine:.2f} s, ansible -m ping {base:.2f} s: {mine / base:.2f} times as long")
    return hundred / first


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bench-capacity-") as folder:
        place = Path(folder)
        with ApiServer(place) as server:
            ratio = measure(server, place)
    verdict = "PASS" if ratio <= TARGET else "FAIL"
    print(f"node-capacity: {NODES} nodes take {ratio:.1f} × one (target ≤ {TARGET:.0f} ×) {verdict}")
    return 0 if verdict == "PASS" else 1


if __name__ == "__main__":
    sys.exit(main())
