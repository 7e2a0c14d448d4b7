# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What a node's kubelet is, where it came from and what it is told: from its files, its process and its unit.

The running process is believed over its files: a flag on its command line beats every file (and a drop-in of
--config-dir the config), and its control group says who started it. Where no kubelet runs, its unit tells what it would
be told, and without a unit the files of kubeadm are all there is.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ansible_collections.colocation.kubernetes.plugins.module_utils._agent_kubeconfig import require_usable
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_config import (
    Kubeconfig,
    choose_access,
    parse_document,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._kubelet_unit import (
    unit_arguments,
    unit_environment,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._node_machine import read_text, under
from ansible_collections.colocation.kubernetes.plugins.module_utils._systemd import UnitState

Run = Callable[[list[str]], tuple[int, str, str]]

BINARY_DIRS = ("/usr/bin", "/usr/local/bin", "/opt/bin", "/usr/sbin", "/snap/bin")
FLAG_FILES = ("/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet")
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
BOOTSTRAP_KUBECONFIG = "/etc/kubernetes/bootstrap-kubelet.conf"
CONFIG = "/var/lib/kubelet/config.yaml"
NULLS = ("null", "Null", "NULL", "~")
DEFAULT_DRIVER = "cgroupfs"  # of a kubelet that is told no cgroup driver


@dataclass(frozen=True, slots=True)
class KubeletProcess:
    pid: int
    executable: str
    cgroup: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kubelet:
    binary: str
    version: str  # "1.36.3"
    version_error: str
    unit: UnitState | None
    bundles: tuple[str, ...]  # units of other distributions that bring a kubelet of their own
    process_cgroup: str  # empty: none runs
    process_executable: str
    kubeconfig: str
    kubeconfig_present: bool
    identity_problem: str  # why nothing in its kubeconfig proves who the node is; empty: something does
    agents_problem: str  # why our agents can't use that too
    bootstrap_kubeconfig: str
    server: str
    hostname_override: str
    runtime_endpoint: str
    cgroup_driver: str  # empty: not set
    config_read: bool  # there is a configuration, so what it does not set has its default
    fail_swap_on: bool
    fail_cgroup_v1: bool | None  # None: not set, the version decides


def parse_version(text: str) -> str:
    """The numbers of `kubelet --version` and the like; nothing where there are none."""
    found = re.search(r"\bv?(\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?)", text)
    return found.group(1) if found else ""


def parse_flags(arguments: Iterable[str]) -> dict[str, str]:
    """`--name=value`, `--name value` and `--name`; the last one of a name wins, as it does in the kubelet."""
    flags: dict[str, str] = {}
    open_name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            flags[name] = value if equals else "true"
            open_name = "" if equals else name
        elif open_name:
            flags[open_name] = argument
            open_name = ""
    return flags


def parse_environment(text: str) -> list[str]:
    """The arguments in an environment file: the words of each KUBELET_…=… value."""
    words: list[str] = []
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or not name.startswith("KUBELET_"):
            continue
        try:
            words += [word for part in shlex.split(value) for word in part.split()]
        except ValueError:
            words += value.strip("\"'").split()
    return words


def parse_config(text: str) -> dict[str, str]:
    """Top-level scalars of a kubelet's config in YAML or JSON; what is nested is left out."""
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = re.match(r"""["']?([A-Za-z][A-Za-z0-9]*)["']?:\s+(.+)$""", line)
        if found:
            values[found.group(1)] = _scalar(found.group(2))
    return values


def _parse_json(text: str) -> dict[str, str]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    scalars = {key: value for key, value in tree.items() if not isinstance(value, (dict, list))}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in scalars.items()}


def _scalar(text: str) -> str:
    quoted = re.match(r"""(["'])(.*?)\1""", text)
    return quoted.group(2) if quoted else re.split(r"\s+#", text, maxsplit=1)[0].strip()


def parse_kubeconfig(text: str) -> tuple[str, str, str]:
    """Server address, CA in base64 and CA file of the first cluster, in YAML or JSON; empty where not said."""
    return (
        _kubeconfig_value(text, "server"),
        _kubeconfig_value(text, "certificate-authority-data"),
        _kubeconfig_value(text, "certificate-authority"),
    )


def _kubeconfig_value(text: str, key: str) -> str:
    """The first value of that key, at any depth, in YAML or JSON; empty where there is none."""
    found = re.search(rf"""(?:^|[\s{{,])["']?{key}["']?:\s*["']?([^\s"',}}]+)""", text)
    return found.group(1) if found else ""


def kubeconfig_of(flags: Mapping[str, str]) -> str:
    """The kubeconfig of a kubelet with these flags."""
    return flags.get("kubeconfig") or KUBECONFIG


def kubelets_kubeconfig(root: str = "/") -> str:
    """The kubeconfig that the kubelet uses: that of its running command line, else of its unit, else kubeadm's."""
    return kubeconfig_of(read_flags(root, find_process(root, "kubelet")))


def environment_of(root: str, process: KubeletProcess | None) -> dict[str, str]:
    """The environment of the running kubelet, which a program for its credentials is started with; else its unit's."""
    own = read_text(root, f"/proc/{process.pid}/environ") if process else ""
    found = (pair.partition("=") for pair in own.split("\0"))
    return {name: value for name, equals, value in found if equals} or unit_environment(root)


def identity_in(config: Kubeconfig, environment: Callable[[], Mapping[str, str]] | None = None) -> Access:
    """The way to the API and the proof of who the node is, which a kubelet's kubeconfig names, or an AccessError. A
    program for its credentials is run in that environment, which is asked for only where there is one."""
    access = choose_access([config])
    if access.exec_plugin is not None and environment is not None:
        access = replace(access, exec_plugin=replace(access.exec_plugin, surroundings=environment()))
    if not access.server.startswith("https://"):
        raise AccessError(f"{config.name} names no API server with https, but {access.server!r}")
    if not access.certificate and not access.token and access.exec_plugin is None:
        raise AccessError(f"{config.name} has no client certificate, token or program that proves who the node is")
    return access


def kubeconfig_in(text: str, path: str) -> Kubeconfig:
    """A kubeconfig's text; `path` is where it is on the node."""
    return Kubeconfig(parse_document(text, path), path, os.path.dirname(path))


def made_otherwise(path: str, access: Access | None) -> str:
    """How the node is a member, where that is not kubeadm's way; empty where it is, or may have been."""
    if path != KUBECONFIG:
        return f"its kubelet's kubeconfig is {path}"
    if access is None or access.certificate:
        return ""
    return f"{path} has a {'token' if access.token else 'program'} in place of a client certificate"


def _problems(text: str, path: str) -> tuple[str, str]:
    """What keeps us, and our agents, from asking the API with this kubeconfig."""
    try:
        access = identity_in(kubeconfig_in(text, path))
    except AccessError as problem:
        return str(problem), ""
    try:
        require_usable(access)
    except AccessError as problem:
        return "", str(problem)
    return "", ""


def parse_cgroup(text: str) -> str:
    """The control group in which systemd keeps a process, from /proc/<pid>/cgroup of any version."""
    groups = {}
    for line in text.splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            groups[controllers] = path
    return groups.get("name=systemd") or groups.get("", "")


def find_process(root: str, name: str) -> KubeletProcess | None:
    """The oldest process of that name that is in no pod: a test may run a kubelet of its own there."""
    for entry in sorted(filter(str.isdigit, os.listdir(under(root, "/proc"))), key=int):
        place = f"/proc/{entry}"
        if read_text(root, f"{place}/comm").strip() != name:
            continue
        cgroup = parse_cgroup(read_text(root, f"{place}/cgroup"))
        if any(re.fullmatch(r"kubepods([.-].*)?", part) for part in cgroup.split("/")):
            continue
        try:
            executable = os.readlink(under(root, f"{place}/exe"))
        except OSError:
            executable = ""
        arguments = tuple(read_text(root, f"{place}/cmdline").split("\0"))
        return KubeletProcess(int(entry), executable, cgroup, arguments)
    return None


def find_binary(root: str, name: str) -> str:
    candidates = (os.path.join(place, name) for place in BINARY_DIRS)
    return next((path for path in candidates if os.access(under(root, path), os.X_OK)), "")


def read_kubelet(root: str, run: Run, unit: UnitState | None, bundles: tuple[str, ...]) -> Kubelet:
    process = find_process(root, "kubelet")
    flags = read_flags(root, process)
    binary = (process.executable if process else "") or find_binary(root, "kubelet")
    version, version_error = _ask_version(run, binary) if binary else ("", "")
    config = _config(root, flags)
    kubeconfig = kubeconfig_of(flags)
    identity_problem, agents_problem = _problems(read_text(root, kubeconfig), kubeconfig)
    bootstrap = flags.get("bootstrap-kubeconfig", BOOTSTRAP_KUBECONFIG)
    server, _ca = read_cluster(root, (kubeconfig, bootstrap))
    return Kubelet(
        binary=binary,
        version=version,
        version_error=version_error,
        unit=unit,
        bundles=bundles,
        process_cgroup=process.cgroup if process else "",
        process_executable=process.executable if process else "",
        kubeconfig=kubeconfig,
        kubeconfig_present=bool(read_text(root, kubeconfig).strip()),
        identity_problem=identity_problem,
        agents_problem=agents_problem,
        bootstrap_kubeconfig=bootstrap,
        server=server,
        hostname_override=flags.get("hostname-override", ""),
        runtime_endpoint=flags.get("container-runtime-endpoint") or config.get("containerRuntimeEndpoint", ""),
        cgroup_driver=flags.get("cgroup-driver") or config.get("cgroupDriver", ""),
        config_read=bool(config),
        fail_swap_on=(flags.get("fail-swap-on") or config.get("failSwapOn", "true")) != "false",
        fail_cgroup_v1=_boolean(config.get("failCgroupV1")),
    )


def _boolean(text: str | None) -> bool | None:
    return {"true": True, "false": False}.get(text or "")


def _config(root: str, flags: Mapping[str, str]) -> dict[str, str]:
    """The config file with the drop-ins of --config-dir over it, as the kubelet merges them: null takes a key away."""
    values: dict[str, str] = {}
    for path in (flags.get("config", CONFIG), *drop_ins(root, flags.get("config-dir", ""))):
        values.update(parse_config(read_text(root, path)))
    return {key: value for key, value in values.items() if value not in NULLS}


def drop_ins(root: str, directory: str) -> Iterator[str]:
    """Files *.conf of the directory and those below it; files and directories of one place in the order of names."""
    place = under(root, directory)
    names = sorted(os.listdir(place)) if directory and os.path.isdir(place) else []
    for name in names:
        path = os.path.join(directory, name)
        inside = under(root, path)
        if os.path.isdir(inside) and not os.path.islink(inside):
            yield from drop_ins(root, path)
        elif name.endswith(".conf"):
            yield path


def read_flags(root: str, process: KubeletProcess | None) -> dict[str, str]:
    """What the running kubelet was told; where none runs, what its unit or its files would tell it."""
    if process and any(process.arguments):  # one that just ended has none
        return parse_flags(process.arguments)
    from_files = (word for path in FLAG_FILES for word in parse_environment(read_text(root, path)))
    return parse_flags(unit_arguments(root) or from_files)


def _ask_version(run: Run, binary: str) -> tuple[str, str]:
    rc, out, err = run([binary, "--version"])
    version = parse_version(out) if rc == 0 else ""
    return version, "" if version else (err or out).strip() or f"exit code {rc}"


def read_cluster(root: str, kubeconfigs: Iterable[str]) -> tuple[str, str]:
    """Address and CA by the first kubeconfig that names a server; no CA where its certificate is held to another name
    than the address has."""
    for path in kubeconfigs:
        text = read_text(root, path)
        server, ca_base64, ca_file = parse_kubeconfig(text)
        if server and _kubeconfig_value(text, "tls-server-name"):
            return server, ""
        if server:
            return server, _decoded(ca_base64) or (read_text(root, ca_file) if ca_file else "")
    return "", ""


def _decoded(text: str) -> str:
    """What stands in base64 in a kubeconfig; empty where it is none."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
