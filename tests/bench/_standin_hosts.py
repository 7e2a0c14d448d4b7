# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Stand-ins for nodes: real sshds on this machine that listen on a port for each, and modules that only answer.

A stand-in's module is the real one with all that it imports, so Ansible packs, sends and starts as much as for a node;
its work is left out, for what is measured is the controller.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.say import wait_until
from ansible_collections.colocation.kubernetes.tests.contract.ansible_run import ROOT
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.contract.debian_programs import unpacked
from ansible_collections.colocation.kubernetes.tests.ports import free_port

MAIN = 'if __name__ == "__main__":\n    main()'
ANSWERS = """\
def stand_in() -> None:
    import json
    import sys

    print(json.dumps({answer!r}))
    sys.exit(0)


if __name__ == "__main__":
    stand_in()
"""
CONFIG = """\
HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
MaxStartups 500
MaxSessions 100
LogLevel ERROR
"""
PORTS = 16  # of one sshd; it refuses more
PASSWD = "sshd:x:110:65534::/run/sshd:/usr/sbin/nologin\n"


def standin_module(name: str, answer: dict[str, Any]) -> str:
    """The module's text with an answer in place of its work."""
    text = (ROOT / f"plugins/modules/{name}.py").read_text()
    if MAIN not in text:
        raise SystemExit(f"plugins/modules/{name}.py does not end with a call of main()")
    return text.replace(MAIN, ANSWERS.format(answer={"changed": False, **answer}))


class StandinHosts:
    """Runs their sshds in a mount and PID namespace of its own until `stop`; `variables` are those of each host."""

    def __init__(self, place: Path, count: int) -> None:
        self.place = place
        self.ports = [free_port() for _host in range(count)]
        for name in ("host_key", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)],
                check=True,
                capture_output=True,
            )
        self._parts = [self.ports[first : first + PORTS] for first in range(0, count, PORTS)]
        for number, part in enumerate(self._parts):
            ports = "".join(f"ListenAddress 127.0.0.1:{port}\n" for port in part)
            (place / f"sshd_config{number}").write_text(CONFIG.format(place=place) + ports)
        self._log = place / "sshd.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*ENDS_WITH_US, *self._command()], stdout=log, stderr=log)

    def _command(self) -> list[str]:
        """sshd where it finds the folder and the account that it wants, which this machine may not have."""
        server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        brought = unpacked("openssh-server", ("openssh-server",)) if server is None else None
        program = server or str(brought / "usr/sbin/sshd")  # type: ignore[operator]
        session = brought / "usr/lib/openssh/sshd-session" if brought else None
        words = [program, "-D", "-e"]
        if session is not None and session.exists():  # of OpenSSH 9.8 and later
            words += ["-o", f"SshdSessionPath={session}", "-o", f"SshdAuthPath={session.with_name('sshd-auth')}"]
        (self.place / "passwd").write_text(PASSWD + Path("/etc/passwd").read_text())
        steps = [
            ["mount", "--bind", str(self.place / "passwd"), "/etc/passwd"],
            ["mount", "-t", "tmpfs", "none", "/run"],
            ["mkdir", "/run/sshd"],
        ]
        configs = [str(self.place / f"sshd_config{number}") for number in range(len(self._parts))]
        *beside, last = [shlex.join([*words, "-f", config]) for config in configs]
        ready = " && ".join(map(shlex.join, steps))
        start = " ".join([f"{ready} || exit;", *(f"{one} &" for one in beside), f"exec {last}"])
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", start]

    def until_ready(self) -> None:
        """Wait until the last host of each sshd lets us in."""
        settings = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
        options = [word for setting in settings for word in ("-o", setting)]

        def answers(port: int) -> bool:
            if self._process.poll() is not None:
                raise SystemExit(f"sshd ended:\n{self._log.read_text()[-2000:]}")
            where = ["-i", str(self.place / "key"), "-p", str(port), "root@127.0.0.1"]
            login = ["ssh", "-F", "none", *options, *where, "true"]
            return subprocess.run(login, capture_output=True, check=False).returncode == 0

        for part in self._parts:
            wait_until("the stand-ins' sshd", partial(answers, part[-1]), 30, lambda: self._log.read_text()[-2000:])

    def variables(self, number: int) -> dict[str, Any]:
        """How Ansible reaches one."""
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.ports[number],
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.place / "key"),
            "ansible_python_interpreter": sys.executable,
        }

    def stop(self) -> None:
        self._process.kill()  # unshare is deaf to a request; the namespace's first process goes with it, and so all
        self._process.wait()
