# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Ways to break a node, or to make it another one: what each simulates, a shell script for root in a Debian 13 VM,
and the proof that it worked.

Scripts may be run again on a node that is broken already, or that was repaired since: a mask that a repair left
behind is taken away first. None of them undoes anything; throw the VM's overlay away for that. A script that can't
do its work for want of a package or a disk says so and ends with exit code 3.

What was found out on the way:

- systemd-gpt-auto-generator looks only at the disk that holds the root file system. Our VMs boot a kernel directly,
  from a root disk without a partition table, so it never finds anything there, and a swap partition on the second
  disk takes part only when fstab names it. `swap-gpt-auto` stands in for it with a generator of our own that writes
  the unit that systemd 257 writes on a root disk with such a partition: in generator.late, and named after the disk's
  sequence number.
- The kernel of linux-image-cloud-amd64 in Debian 13 (6.12) has zram (module, lz4 and zstd); no other kernel is needed.
- Debian 13's systemd-zram-generator brings /usr/lib/systemd/zram-generator.conf with a [zram0] section, so installing
  the package means swap after the next boot. An image that has it needs an empty /etc/systemd/zram-generator.conf to
  start without.
"""

from __future__ import annotations

from dataclasses import dataclass

UNSUITABLE = 3  # exit code of a script that lacks something

_HEAD = """\
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unsuitable() { echo "$1" >&2; exit 3; }
need() { command -v "$1" >/dev/null || unsuitable "$1 is missing: the image needs the package $2"; }
unmasked() { systemctl unmask "$1" >/dev/null 2>&1 || true; }
swap_file() {
    if ! grep -q "^$1 " /proc/swaps; then
        [ -s "$1" ] || dd if=/dev/zero of="$1" bs=1M count=64 status=none
        chmod 600 "$1"
        mkswap -q "$1" >/dev/null
    fi
}
swap_disk() {
    [ -b /dev/vdb ] || unsuitable "/dev/vdb is missing: the VM needs a second disk"
    need sfdisk fdisk
    if ! grep -q '^/dev/vdb1 ' /proc/swaps; then
        type=0657fd6d-a4ab-43c4-84e5-0933c84b4f4f
        if ! sfdisk --part-type /dev/vdb 1 2>/dev/null | grep -qi "$type"; then
            printf 'label: gpt\\ntype=%s\\n' "$type" | sfdisk --quiet --wipe always /dev/vdb
            udevadm settle
        fi
        mkswap -q -U 5ca1ab1e-0000-4000-8000-000000000001 /dev/vdb1 >/dev/null
        udevadm settle
    fi
}
kubelet_ends() {
    systemctl restart kubelet.service || true
    for _second in $(seq 60); do
        [ "$(systemctl show -p NRestarts --value kubelet.service)" -eq 0 ] || return 0
        ! systemctl is-failed -q kubelet.service || return 0
        sleep 1
    done
    echo "the kubelet runs for 60 s without its $1" >&2
    return 1
}
"""
_ENDS = (
    '{ systemctl is-failed -q kubelet.service || [ "$(systemctl show -p NRestarts --value kubelet.service)" -gt 0 ]; }'
)


@dataclass(frozen=True, slots=True)
class Breakage:
    name: str
    simulates: str
    script: str  # for bash, as root
    check: str  # exit code 0 when the node is broken in this way
    ill: bool = True  # else it is well, and only another kind of node: nothing to repair


def _breakage(name: str, simulates: str, script: str, check: str, ill: bool = True) -> Breakage:
    return Breakage(name, simulates, _HEAD + script.lstrip("\n"), check, ill)


# What a kubelet of a cloud would run for credentials: it prints the node's own certificate and key.
CREDENTIALS_PROGRAM = r"""#!/bin/sh
set -eu
pem=/var/lib/kubelet/pki/kubelet-client-current.pem
part() { sed -n "/BEGIN .*$1/,/END .*$1/p" "$pem" | sed 's/$/\\n/' | tr -d '\n'; }
cat <<CREDENTIALS
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {"clientCertificateData": "$(part CERTIFICATE)", "clientKeyData": "$(part 'PRIVATE KEY')"}}
CREDENTIALS
"""
# And its kubeconfig; the server's address follows.
PROGRAMS_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: kubelet
contexts:
- name: kubelet
  context:
    cluster: kubernetes
    user: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: /usr/local/bin/kubelet-credentials
      interactiveMode: Never
clusters:
- name: kubernetes
  cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: """
# The Node is Ready and its kubelet has renewed its lease since that process began, or exit code 1 after a while.
_SPEAKS = r"""
python3 -I - "$(date -d "$(systemctl show -P ExecMainStartTimestamp kubelet.service)" +%s)" <<'PYTHON'
import datetime, json, os, ssl, sys, time, urllib.request
server = open("/var/lib/kubelet/kubeconfig").read().split("server: ")[1].split()[0]
context = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
context.verify_flags &= ~ssl.VERIFY_X509_STRICT
context.load_cert_chain("/var/lib/kubelet/pki/kubelet-client-current.pem")
node = os.uname().nodename.lower()


def ask(path):
    with urllib.request.urlopen(server + path + node, context=context, timeout=20) as answer:
        return json.load(answer)


def said():
    lease = ask("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/")["spec"]["renewTime"]
    renewed = datetime.datetime.strptime(lease.partition(".")[0].rstrip("Z") + "+0000", "%Y-%m-%dT%H:%M:%S%z")
    if renewed.timestamp() < int(sys.argv[1]):
        return f"its kubelet has not spoken since it began; last: {lease}"
    conditions = {one["type"]: one for one in ask("/api/v1/nodes/")["status"]["conditions"]}
    return "" if conditions["Ready"]["status"] == "True" else conditions["Ready"]["message"]


end = time.monotonic() + 200
while True:
    try:
        why = said()
    except (OSError, ValueError, KeyError) as problem:
        why = repr(problem)
    if not why or time.monotonic() > end:
        sys.exit(why or 0)
    time.sleep(2)
PYTHON
"""


_ALL = (
    _breakage(
        "swap-file",
        "A swap file that fstab names, switched on.",
        r"""
swap_file /swapfile
grep -Eq '^/swapfile[[:space:]]' /etc/fstab || printf '/swapfile\tnone\tswap\tsw\t0\t0\n' >>/etc/fstab
systemctl daemon-reload
grep -q '^/swapfile ' /proc/swaps || swapon /swapfile
""",
        r"grep -q '^/swapfile ' /proc/swaps && grep -Eq '^/swapfile[[:space:]]+none[[:space:]]+swap' /etc/fstab",
    ),
    _breakage(
        "swap-partition",
        "A swap partition on a second disk (GPT, with the type of swap) that fstab names by its UUID, switched on.",
        r"""
swap_disk
line='UUID=5ca1ab1e-0000-4000-8000-000000000001 none swap sw,nofail 0 0'
grep -Fxq "$line" /etc/fstab || printf '%s\n' "$line" >>/etc/fstab
systemctl daemon-reload
grep -q '^/dev/vdb1 ' /proc/swaps || swapon /dev/vdb1
""",
        r"grep -q '^/dev/vdb1 ' /proc/swaps && grep -q '^UUID=5ca1ab1e-.* swap ' /etc/fstab",
    ),
    _breakage(
        "swap-gpt-auto",
        "A swap partition that nothing names and systemd-gpt-auto-generator would find, if it were on the root disk: "
        "a double of that generator makes its unit at every boot and reload, as long as fstab has no swap.",
        r"""
swap_disk
unmasked swap.target
directory=/etc/systemd/system-generators
mkdir -p "$directory"
cat >"$directory/double-of-gpt-auto-generator" <<'GENERATOR'
#!/bin/sh
awk '$1 !~ /^#/ && $3 == "swap" { found = 1 } END { exit !found }' /etc/fstab && exit 0
number=$(cat /sys/block/vdb/diskseq 2>/dev/null || echo 2)
unit="dev-disk-by\\x2ddiskseq-$number\\x2dpart1.swap"
mkdir -p "$3/swap.target.wants"
printf '%s\n' \
    '# Automatically generated by systemd-gpt-auto-generator' '' \
    '[Unit]' 'Description=Swap Partition' 'Documentation=man:systemd-gpt-auto-generator(8)' '' \
    '[Swap]' "What=/dev/disk/by-diskseq/$number-part1" >"$3/$unit"
ln -sf "../$unit" "$3/swap.target.wants/$unit"
GENERATOR
chmod 755 "$directory/double-of-gpt-auto-generator"
systemctl daemon-reload
grep -q '^/dev/vdb1 ' /proc/swaps || swapon /dev/vdb1
""",
        r"grep -q '^/dev/vdb1 ' /proc/swaps && grep -Rq by-diskseq /run/systemd/generator.late/swap.target.wants",
    ),
    _breakage(
        "swap-unit",
        "A swap file with a .swap unit of the administrator's, enabled and started.",
        r"""
swap_file /var/swapfile
rm -f /etc/systemd/system/var-swapfile.swap
cat >/etc/systemd/system/var-swapfile.swap <<'UNIT'
[Unit]
Description=Swap that the administrator wanted

[Swap]
What=/var/swapfile

[Install]
WantedBy=swap.target
UNIT
systemctl daemon-reload
systemctl enable --quiet var-swapfile.swap
systemctl start var-swapfile.swap
""",
        r"grep -q '^/var/swapfile ' /proc/swaps && systemctl is-enabled -q var-swapfile.swap",
    ),
    _breakage(
        "swap-zram",
        "Compressed swap in memory, made by zram-generator.",
        r"""
[ -x /usr/lib/systemd/system-generators/zram-generator ] ||
    unsuitable 'zram-generator is missing: the image needs the package systemd-zram-generator'
modprobe zram || unsuitable "the kernel $(uname -r) has no zram"
unmasked dev-zram0.swap
printf '[zram0]\nzram-size = 64\n' >/etc/systemd/zram-generator.conf
systemctl daemon-reload
systemctl start dev-zram0.swap
""",
        r"grep -q '^/dev/zram0 ' /proc/swaps && test -L /run/systemd/generator/swap.target.wants/dev-zram0.swap",
    ),
    _breakage(
        "containerd-stopped",
        "containerd was stopped, and is not started at boot.",
        r"""
unmasked containerd.service
systemctl disable --quiet --now containerd.service
""",
        "! systemctl is-active -q containerd.service && ! systemctl is-enabled -q containerd.service",
    ),
    _breakage(
        "containerd-masked",
        "containerd was stopped and masked.",
        r"""
systemctl stop containerd.service
systemctl mask --quiet containerd.service
""",
        "! systemctl is-active -q containerd.service && "
        '[ "$(systemctl is-enabled containerd.service 2>/dev/null)" = masked ]',
    ),
    _breakage(
        "cni-record-cut",
        "Power was lost while CNI's notes of the pods' networks were not on the disk yet.",
        r"""
records=/var/lib/cni/results
mkdir -p "$records"
[ -n "$(ls "$records")" ] || : >"$records/test-0123456789abcdef-eth0"
for record in "$records"/*; do
    : >"$record"
    touch -d '2 minutes ago' "$record"
done
""",
        "find /var/lib/cni/results -type f -empty -mmin +1 | grep -q .",
    ),
    _breakage(
        "containerd-cgroupfs",
        "containerd with a configuration tuned by hand (the one that stands there, where it names a cgroup driver), in "
        "which the cgroup driver is the wrong one: cgroupfs.",
        r"""
config=/etc/containerd/config.toml
value() { containerd config dump | sed -nE "s/^ *$1 = [\"'](.+)[\"']\$/\2/p" | head -n 1; }
tuned() {
    sandbox=$(value '(sandbox|sandbox_image)')
    plugins=$(value '(bin_dir)')
    [ -d "${plugins:-/nowhere}" ] || plugins=/usr/lib/cni
    [ -d "$plugins" ] || plugins=/opt/cni/bin
    cat <<CONFIG
# Tuned by hand; ask before you change anything here.
version = 2
oom_score = -500

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${sandbox:-registry.k8s.io/pause:3.10}"
  max_concurrent_downloads = 7  # the line to the registry is thin

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$plugins"
    conf_dir = "/etc/cni/net.d"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false  # was in a guide that we followed
CONFIG
}
mkdir -p /etc/containerd
if grep -Eq '^ *SystemdCgroup *=' "$config" 2>/dev/null; then
    sed -i -E 's/^( *SystemdCgroup *= *)true/\1false/' "$config"
else
    tuned >"$config.new"
    mv "$config.new" "$config"
fi
systemctl restart containerd.service
""",
        "systemctl is-active -q containerd.service && containerd config dump | grep -q 'SystemdCgroup = false'",
    ),
    _breakage(
        "containerd-unparsable",
        "A configuration that containerd can't parse; the daemon was restarted and does not come up.",
        r"""
mkdir -p /etc/containerd
grep -q 'half a table' /etc/containerd/config.toml 2>/dev/null ||
    printf '\n# half a table, an edit that was interrupted\n[plugins."io.containerd\n' >>/etc/containerd/config.toml
systemctl restart containerd.service || true
""",
        "! systemctl is-active -q containerd.service && ! containerd config dump >/dev/null 2>&1",
    ),
    _breakage(
        "kubelet-disabled",
        "The kubelet was stopped, and is not started at boot.",
        r"""
systemctl disable --quiet --now kubelet.service
""",
        "! systemctl is-active -q kubelet.service && "
        '[ "$(systemctl is-enabled kubelet.service 2>/dev/null)" = disabled ]',
    ),
    _breakage(
        "kubelet-conf-lost",
        "The kubelet's kubeconfig is gone; the kubelet was restarted and ends again and again.",
        r"""
rm -f /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf
kubelet_ends kubeconfig
""",
        f"[ ! -e /etc/kubernetes/kubelet.conf ] && {_ENDS}",
    ),
    _breakage(
        "kubelet-config-lost",
        "The kubelet's configuration is gone; the kubelet was restarted and ends again and again.",
        r"""
rm -f /var/lib/kubelet/config.yaml
kubelet_ends configuration
""",
        f"[ ! -e /var/lib/kubelet/config.yaml ] && {_ENDS}",
    ),
    _breakage(
        "kubelet-identity-lost",
        "The kubelet's kubeconfig and certificates are gone, and nothing on the node proves who it is.",
        r"""
rm -f /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf
rm -rf /var/lib/kubelet/pki
kubelet_ends kubeconfig
""",
        f"[ ! -e /etc/kubernetes/kubelet.conf ] && [ ! -e /var/lib/kubelet/pki/kubelet-client-current.pem ] && {_ENDS}",
    ),
    _breakage(
        "kubelet-kubeconfig-elsewhere",
        "A node as clouds make them, which is well: its kubelet has its kubeconfig at /var/lib/kubelet/kubeconfig with "
        "a program for its credentials, rotates no certificate, and nothing of kubeadm's kubeconfigs is left.",
        r"""
pem=/var/lib/kubelet/pki/kubelet-client-current.pem
kubeconfig=/var/lib/kubelet/kubeconfig
[ -s "$pem" ] || unsuitable "$pem is missing: the node has to be joined first"
from=/etc/kubernetes/kubelet.conf
[ -s "$from" ] || from=$kubeconfig
server=$(sed -n 's/^ *server: *//p' "$from" | head -n 1)
[ -n "$server" ] || unsuitable "$from names no server"
cat >/usr/local/bin/kubelet-credentials <<'PROGRAM'
"""
        + CREDENTIALS_PROGRAM
        + r"""PROGRAM
chmod 755 /usr/local/bin/kubelet-credentials
cat >"$kubeconfig.new" <<KUBECONFIG
"""
        + PROGRAMS_KUBECONFIG
        + r"""$server
KUBECONFIG
chmod 600 "$kubeconfig.new"
mv "$kubeconfig.new" "$kubeconfig"
# One that rotates takes its certificate from the disk, whatever its kubeconfig says.
sed -i 's/^rotateCertificates:.*/rotateCertificates: false/' /var/lib/kubelet/config.yaml
mkdir -p /etc/systemd/system/kubelet.service.d
printf '[Service]\nEnvironment="KUBELET_KUBECONFIG_ARGS=--kubeconfig=%s"\n' "$kubeconfig" \
    >/etc/systemd/system/kubelet.service.d/20-kubeconfig-elsewhere.conf
rm -f /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf
systemctl daemon-reload
systemctl restart kubelet.service
""",
        r"""
set -eu
[ ! -e /etc/kubernetes/kubelet.conf ]
! grep -q client-certificate /var/lib/kubelet/kubeconfig || exit 1
told() { tr '\0' '\n' <"/proc/$(systemctl show -P MainPID kubelet.service)/cmdline"; }
told | grep -Fqx -- --kubeconfig=/var/lib/kubelet/kubeconfig
! told | grep -q -- --bootstrap-kubeconfig || exit 1
""".lstrip()
        + _SPEAKS,
        ill=False,
    ),
)

BREAKAGES: dict[str, Breakage] = {breakage.name: breakage for breakage in _ALL}
