# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Configs as users have them, by config version; each is one that the containerds named beside it can read."""

from __future__ import annotations

from dataclasses import dataclass

ALL = ("1.7", "2.1", "2.2", "2.3")
TWO = ("2.1", "2.2", "2.3")
CRI = 'plugins."io.containerd.grpc.v1.cri"'
RUNTIME = "plugins.'io.containerd.cri.v1.runtime'"


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    text: str
    readable_by: tuple[str, ...] = ALL

    @property
    def data(self) -> bytes:
        return self.text.encode()


GPU_NODE = f"""\
# Managed by the GPU team. Ask before you touch it.
version = 2
root = "/data/containerd"   # the big disk

[grpc]
  max_recv_message_size = 33554432

[{CRI}]
  sandbox_image = "registry.example.com/pause:3.9"
  enable_cdi = true

  [{CRI}.registry]
    config_path = "/etc/containerd/certs.d"

  [{CRI}.registry.headers]
    X-Site = ["north", "south"]

  [{CRI}.containerd]
    default_runtime_name = "nvidia"
    snapshotter = "native"

    [{CRI}.containerd.runtimes]
      [{CRI}.containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [{CRI}.containerd.runtimes.runc.options]
          SystemdCgroup = false # see ticket 17
          BinaryName = "/usr/local/bin/runc"

      [{CRI}.containerd.runtimes.nvidia]
        privileged_without_host_devices = false
        runtime_type = "io.containerd.runc.v2"
        [{CRI}.containerd.runtimes.nvidia.options]
          BinaryName = "/usr/bin/nvidia-container-runtime"

      [{CRI}.containerd.runtimes.kata]
        runtime_type = "io.containerd.kata.v2"
        [{CRI}.containerd.runtimes.kata.options]
          ConfigPath = "/opt/kata/configuration.toml"
"""

CONFIGS = (
    Config("empty", ""),
    Config("debian", f"""\
version = 2

[plugins]
  [{CRI}]
    [{CRI}.cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd"
"""),
    Config("docker's package", '#   Licensed to you\n\ndisabled_plugins = ["cri"]\n\n#root = "/var/lib/containerd"\n'),
    Config("GPU node", GPU_NODE),
    Config("GPU node, CRLF", GPU_NODE.replace("\n", "\r\n")),
    Config("version 1", """\
oom_score = -999
[plugins.cri]
  systemd_cgroup = false
  [plugins.cri.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins.cri.registry.mirrors."docker.io"]
    endpoint = ["https://mirror.example.com"]
"""),
    Config("inline tables", f"""\
version = 2
[{CRI}.containerd]
runtimes = {{ runc = {{ runtime_type = 'io.containerd.runc.v2', options = {{ SystemdCgroup = false }} }} }}
"""),
    Config("dotted keys", f"""\
version = 2
{CRI}.containerd.runtimes.runc.runtime_type = 'io.containerd.runc.v2'
{CRI}.containerd.runtimes.runc.options.BinaryName = 'crun' # faster
[{CRI}.registry]
config_path = "/etc/containerd/certs.d"
"""),
    Config("tables spread over the file", f"""\
version = 2
[{CRI}.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.gc.v1.scheduler"]
pause_threshold = 0.05
[{CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins]
"""),
    Config("disabled among others", """\
version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", # no btrfs here
  "io.containerd.grpc.v1.cri",
  "io.containerd.snapshotter.v1.zfs",
]
"""),
    Config("done already", f"""\
version = 2
[{CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {{ SystemdCgroup = true }}
"""),
    Config("old switch", f"version = 2\n[{CRI}]\nsystemd_cgroup = true # from 2018\n"),
    Config("version 3", f"""\
version = 3
[{RUNTIME}.containerd.runtimes.nvidia]
  runtime_type = 'io.containerd.runc.v2'
  options = {{ BinaryName = '/usr/bin/nvidia-container-runtime' }}
[{RUNTIME}.cni]
  conf_dir = '/etc/cni/other'
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '/etc/containerd/certs.d' # ours
""", TWO),
    Config("version 3 with the CRI plugins off", """\
version = 3
disabled_plugins = ['io.containerd.cri.v1.runtime', 'io.containerd.cri.v1.images', 'io.containerd.grpc.v1.cri']
""", TWO),
    Config("version 4", f"""\
version = 4
[plugins.'io.containerd.server.v1.grpc']
  address = '/run/other/containerd.sock'
[{RUNTIME}.containerd.runtimes.runc.options]
  SystemdCgroup = false
""", ("2.3",)),
)  # fmt: skip

BROKEN = (
    Config("a header that does not end", f"version = 2\n[{CRI}.cni\nbin_dir = '/x'\n{'#' * 9}\n[grpc]\nuid = 7\n"),
    Config(
        "a word without quotes",
        f"""\
version = 2
[{CRI}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options.SystemdCgroup = ture
""",
    ),
    Config("a table twice", "version = 2\n[grpc]\nuid = 7\n[debug]\nlevel = 'info'\n[grpc]\ngid = 8\n"),
    Config("a wrong type", f"version = 2\n[{CRI}]\nsandbox_image = 5\n[{CRI}.registry]\nconfig_path = '/c'\n"),
    Config("a short name", "version = 2\ndisabled_plugins = ['cri', 'io.containerd.snapshotter.v1.zfs']\n"),
    Config("an import of nothing", "version = 2\nimports = ['/nowhere/x.toml']\nroot = '/data'\n"),
    Config("no version to read", f"version = two\n[{CRI}.registry]\nconfig_path = '/etc/containerd/certs.d'\n"),
    Config("half a file", f"{GPU_NODE[: GPU_NODE.index('BinaryName') + 20]}"),
    Config("not TOML at all", '{"version": 2}\n'),
    Config("an open list", f"version = 2\n[{CRI}.registry.headers]\nX = [\n  'a',\n[{CRI}.cni]\nbin_dir = '/b'\n"),
    Config("a version of the future", "version = 99\n[grpc]\nuid = 7\n"),
)
