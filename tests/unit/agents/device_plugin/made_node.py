# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A made-up node: /proc, sysfs and a tree of control groups as files in a directory, in the layout of either driver."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30
PAGE = 4096
ZONEINFO = """Node {node}, zone   Normal
  per-node stats
      nr_inactive_anon 0
  pages free     100
        boost    0
        min      {min}
        low      {low}
        high     {high}
        promo    0
        spanned  {managed}
        present  {managed}
        managed  {managed}
        cma      0
        protection: (0, 0, 0)
"""


class MadeNode:
    """Change what it has, and write it."""

    def __init__(self, place: Path, driver: str = "systemd", above: str = "") -> None:
        self.proc, self.nodes, self.root = place / "proc", place / "nodes", place / "cgroup"
        for directory in (self.proc / "pressure", self.nodes, self.root / "system.slice"):
            directory.mkdir(parents=True)
        (self.root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        self.driver = driver
        name = "kubepods.slice" if driver == "systemd" else "kubepods"
        self.kubepods = self.root / above / name if above else self.root / name
        for quality in ("burstable", "besteffort"):
            self.quality(quality).mkdir(parents=True)
        self.pressure(0.0)

    def settings(self, **more: object) -> dict[str, object]:
        """Of a memory resource, so that it looks here."""
        return {"proc": str(self.proc), "numa_nodes": str(self.nodes), **more}

    def quality(self, quality: str) -> Path:
        """The directory of a quality of service; guaranteed pods are in kubepods itself."""
        if quality == "guaranteed":
            return self.kubepods
        return self.kubepods / (f"kubepods-{quality}.slice" if self.driver == "systemd" else quality)

    def memory(self, total: int, available: int) -> None:
        text = f"MemTotal: {total >> 10} kB\nMemFree: 1000 kB\nMemAvailable: {available >> 10} kB\nHugePages_Total: 3\n"
        scratch = self.proc / ".meminfo"
        scratch.write_text(text)
        scratch.replace(self.proc / "meminfo")  # as the kernel's, never half

    def numa(self, nodes: Mapping[int, tuple[int, int]], without_cpu: tuple[int, ...] = ()) -> None:
        """NUMA nodes with what they have and what is free of it."""
        for number, (total, free) in nodes.items():
            place = self.nodes / f"node{number}"
            place.mkdir(exist_ok=True)
            lines = {"MemTotal": total, "MemFree": free, "Active(file)": 0, "Inactive(file)": 0, "KReclaimable": 0}
            text = "".join(f"Node {number} {name}: {size >> 10} kB\n" for name, size in lines.items())
            (place / "meminfo").write_text(text)
        (self.nodes / "has_memory").write_text(",".join(map(str, nodes)) + "\n")
        (self.nodes / "has_cpu").write_text(",".join(str(n) for n in nodes if n not in without_cpu) + "\n")
        zones = [ZONEINFO.format(node=n, min=0, low=0, high=0, managed=size[0] // PAGE) for n, size in nodes.items()]
        (self.proc / "zoneinfo").write_text("".join(zones))

    def pressure(self, some: float) -> None:
        for path in (self.proc / "pressure" / "memory", self.kubepods / "memory.pressure"):
            lines = [f"{kind} avg10={some:.2f} avg60=0.00 avg300=0.00 total=0\n" for kind in ("some", "full")]
            path.write_text("".join(lines))

    def pod_directory(self, uid: str, quality: str = "besteffort") -> Path:
        parent = self.quality(quality)
        if self.driver != "systemd":
            return parent / f"pod{uid}"
        stem = parent.name.removesuffix(".slice")
        return parent / f"{stem}-pod{uid.replace('-', '_')}.slice"

    def pod(self, uid: str, anon: int, cache: int = 0, quality: str = "besteffort", node: int = 0) -> Path:
        """A pod with so much memory of its own and so much page cache."""
        place = self.pod_directory(uid, quality)
        container = place / ("cri-containerd-0123abc.scope" if self.driver == "systemd" else "0123abc")
        container.mkdir(parents=True, exist_ok=True)
        stat = {"anon": anon, "file": cache, "kernel": 0, "sock": 0, "shmem": 0}
        lists = {"inactive_anon": anon, "active_anon": 0, "inactive_file": cache, "active_file": 0, "unevictable": 0}
        # A kernel's file has some sixty lines.
        more = {f"workingset_made_up_{number}": number for number in range(45)}
        text = "".join(f"{name} {value}\n" for name, value in (stat | lists | more | {"slab_reclaimable": 0}).items())
        (place / "memory.stat").write_text(text)
        (place / "memory.current").write_text(f"{anon + cache}\n")
        text = "".join(f"{name} N{node}={value}\n" for name, value in lists.items())
        (place / "memory.numa_stat").write_text(text)
        return place

    def gone(self, uid: str, quality: str = "besteffort") -> None:
        shutil.rmtree(self.pod_directory(uid, quality))
