# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real etcd and a real kube-apiserver on loopback, without nodes: for tests of what talks to the API.

It can be killed and started again on the same port with the same data. Whoever asks is made by `user` (a certificate of
its CA) or `account_token` (a service account's token, also one that has expired).
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    ETCD,
    KUBERNETES_MINORS,
    binary,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.contract.children import ENDS_WITH_US
from ansible_collections.colocation.kubernetes.tests.ports import free_port

ISSUER = "https://kubernetes.default.svc"
START_LIMIT = 120.0
Key = ec.EllipticCurvePrivateKey


class ApiServer:
    """`start` it, talk to `server` with a kubeconfig of `kubeconfig(…)`, `stop` it; or `with` it, which does both."""

    def __init__(self, place: Path, minor: str = KUBERNETES_MINORS[0]) -> None:
        self.place = place
        self.minor = minor
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        self._ca = self._sign("test-ca", self._ca_key, None)
        self._account_key = ec.generate_private_key(ec.SECP256R1())
        self._write_material()

    def __enter__(self) -> ApiServer:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def ca_pem(self) -> str:
        return _certificate_pem(self._ca)

    @property
    def ca_file(self) -> Path:
        return self.place / "ca.pem"

    def start(self) -> None:
        """Start what does not run, and wait until it answers."""
        for name, command in self._commands().items():
            running = self._processes.get(name)
            if running is None or running.poll() is not None:
                with (self.place / f"{name}.log").open("ab") as log:
                    self._processes[name] = subprocess.Popen([*ENDS_WITH_US, *command], stdout=log, stderr=log)
        admin = self.kubeconfig()
        end = time.monotonic() + START_LIMIT
        while not self._ready(admin):
            for name, process in self._processes.items():
                assert process.poll() is None, f"{name} ended:\n{self.log(name)}"
            assert time.monotonic() < end, f"kube-apiserver does not get ready:\n{self.log('kube-apiserver')}"
            time.sleep(0.2)

    def kill(self) -> None:
        """End the API server as a crash would; etcd lives on."""
        process = self._processes["kube-apiserver"]
        process.kill()
        process.wait()

    def pause(self) -> None:
        """Let it hang: connections stay, nothing is answered."""
        process = self._processes["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{process.pid}/task")
        end = time.monotonic() + 10
        while any(") T " not in (thread / "stat").read_text() for thread in threads.iterdir()):
            assert time.monotonic() < end, "kube-apiserver does not stop"
            time.sleep(0.01)

    def resume(self) -> None:
        self._processes["kube-apiserver"].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()  # its data go with the test
                process.wait()
        self._processes.clear()

    def log(self, name: str) -> str:
        return "\n".join((self.place / f"{name}.log").read_text(errors="replace").splitlines()[-15:])

    def user(self, name: str, *groups: str) -> tuple[str, str]:
        """A client certificate and its key, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        return _certificate_pem(self._sign(name, key, self._ca_key, groups)), _key_pem(key)

    def kubeconfig(self, name: str = "admin", *groups: str) -> dict[str, Any]:
        """A kubeconfig of a user with a certificate; without groups one who may do everything."""
        certificate, key = self.user(name, *(groups or ("system:masters",)))
        return self._kubeconfig({"client-certificate-data": _coded(certificate), "client-key-data": _coded(key)})

    def kubeconfig_with_token(self, token: str) -> dict[str, Any]:
        return self._kubeconfig({"token": token})

    def account_token(self, namespace: str, name: str, uid: str, lifetime: int) -> str:
        """A service account's token, signed as the API server would; one with a negative lifetime has expired."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "iat": now - 7200,
            "nbf": now - 7200,
            "exp": now + lifetime,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        head = _coded_for_url(json.dumps({"alg": "ES256", "typ": "JWT"}).encode())
        text = f"{head}.{_coded_for_url(json.dumps(claims).encode())}"
        first, second = decode_dss_signature(self._account_key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_coded_for_url(first.to_bytes(32, 'big') + second.to_bytes(32, 'big'))}"

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """kubectl as administrator."""
        path = self.place / "admin.json"
        if not path.exists():
            path.write_text(json.dumps(self.kubeconfig()))
        done = subprocess.run(
            [str(binary(kubernetes(self.minor), "kubectl")), "--kubeconfig", str(path), *words],
            capture_output=True,
            check=False,
            input=stdin,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def _kubeconfig(self, user: dict[str, Any]) -> dict[str, Any]:
        cluster = {"server": self.server, "certificate-authority-data": _coded(self.ca_pem)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
        }

    def _ready(self, admin: dict[str, Any]) -> bool:
        path = self.place / "ready.json"
        path.write_text(json.dumps(admin))
        try:
            done = subprocess.run(
                [str(binary(kubernetes(self.minor), "kubectl")), "--kubeconfig", str(path), "get", "--raw", "/readyz"],
                capture_output=True,
                check=False,
                timeout=30,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _commands(self) -> dict[str, list[str]]:
        etcd = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        return {
            "etcd": [
                str(binary(ETCD, "etcd")), f"--data-dir={self.place}/etcd", f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync", "--log-level=warn",
            ],
            "kube-apiserver": [
                str(binary(kubernetes(self.minor), "kube-apiserver")), f"--etcd-servers={etcd}",
                f"--secure-port={self.port}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                f"--client-ca-file={self.ca_file}", f"--tls-cert-file={self.place}/server.pem",
                f"--tls-private-key-file={self.place}/server.pem", "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction", "--service-cluster-ip-range=10.96.0.0/24",
                f"--service-account-issuer={ISSUER}", f"--service-account-key-file={self.place}/accounts.pem",
                f"--service-account-signing-key-file={self.place}/accounts.pem",
                f"--cert-dir={self.place}/certs", "--endpoint-reconciler-type=none",
            ],
        }  # fmt: skip

    def _write_material(self) -> None:
        self.ca_file.write_text(self.ca_pem)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign("kube-apiserver", key, self._ca_key, serving=True)
        for name, text in (
            ("server.pem", _key_pem(key) + _certificate_pem(certificate)),
            ("accounts.pem", _key_pem(self._account_key)),
        ):
            (self.place / name).write_text(text)
            os.chmod(self.place / name, 0o600)

    def _sign(
        self, name: str, key: Key, signer: Key | None, groups: tuple[str, ...] = (), serving: bool = False
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        attributes = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._ca.subject if signer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        )
        if signer:
            use = ExtendedKeyUsageOID.SERVER_AUTH if serving else ExtendedKeyUsageOID.CLIENT_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if serving:
            names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("kubernetes.test")]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(signer or key, hashes.SHA256())


def _certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _coded_for_url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
