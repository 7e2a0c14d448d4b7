# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Against a real TLS server on loopback."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ansible_collections.colocation.kubernetes.plugins.module_utils._node_api import ApiAnswer, ask_api
from ansible_collections.colocation.kubernetes.tests.ports import free_port


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA as kubeadm makes it: without the extensions that Python 3.13 asks for when strict."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


def make_certificate(name: str, key: ec.EllipticCurvePrivateKey, signer: Authority | None) -> x509.Certificate:
    now = datetime.datetime.now(datetime.timezone.utc)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    if signer:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(signer.key if signer else key, hashes.SHA256())


def make_authority() -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(key, make_certificate("kubernetes", key, None))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


class Handler(BaseHTTPRequestHandler):
    status = 401
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """The test's output is not the place for it."""


@pytest.fixture
def handler() -> type[Handler]:
    return type("FreshHandler", (Handler,), {"asked": []})


@pytest.fixture
def server(authority: Authority, handler: type[Handler], tmp_path: Path) -> Iterator[str]:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + make_certificate("kube-apiserver", key, authority).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "server.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_arguments: object) -> None:
            """A client that refuses our certificate is not an error here."""

    listening = Server(("127.0.0.1", 0), handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.mark.parametrize("status", [200, 401, 403, 500])
def test_any_status_is_an_answer(server: str, handler: type[Handler], authority: Authority, status: int) -> None:
    handler.status = status
    assert ask_api(server, authority.pem, 5) == ApiAnswer(server, status, "", "verified", "")
    assert handler.asked == ["/livez"]


def test_a_server_behind_a_path_prefix_is_asked_there(server: str, handler: type[Handler]) -> None:
    assert ask_api(f"{server}/k8s/clusters/c-1/", "", 5).status == 401
    assert handler.asked == ["/k8s/clusters/c-1/livez"]


def test_without_a_ca_nothing_is_said_of_the_certificate(server: str) -> None:
    assert ask_api(server, "", 5) == ApiAnswer(server, 401, "", "unchecked", "")


def test_another_clusters_server_is_reached_and_told_apart(server: str) -> None:
    answer = ask_api(server, make_authority().pem, 5)
    assert (answer.status, answer.error, answer.certificate) == (401, "", "refused")
    assert answer.certificate_error


def test_a_certificate_for_another_name_is_refused(server: str, authority: Authority) -> None:
    answer = ask_api(server.replace("127.0.0.1", "localhost"), authority.pem, 5)
    assert (answer.status, answer.certificate) == (401, "refused")
    assert "localhost" in answer.certificate_error


def test_a_ca_that_is_none_is_an_error_in_words(server: str) -> None:
    answer = ask_api(server, "-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n", 5)
    assert (answer.status, answer.certificate) == (401, "refused")
    assert answer.certificate_error


@pytest.mark.parametrize("with_ca", [False, True])
def test_a_closed_port(authority: Authority, with_ca: bool) -> None:
    answer = ask_api(f"https://127.0.0.1:{free_port()}", authority.pem if with_ca else "", 5)
    assert (answer.status, answer.error, answer.certificate) == (0, "Connection refused", "unchecked")


def test_a_silent_server_meets_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = ask_api(f"https://127.0.0.1:{silent.getsockname()[1]}", "", 0.2)
    assert (answer.status, answer.error) == (0, "no answer within the time limit")


def test_something_that_speaks_no_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def talk() -> None:
            connection, _address = plain.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=talk)
        thread.start()
        answer = ask_api(f"https://127.0.0.1:{plain.getsockname()[1]}", "", 5)
        thread.join()
    assert answer.status == 0
    assert answer.error


@pytest.mark.parametrize(
    "server", ["http://127.0.0.1:1", "https://", "10.0.0.1:6443", "https://h:port", "https://[::1"]
)
def test_an_address_that_is_none_is_an_error_not_a_crash(server: str) -> None:
    answer = ask_api(server, "", 1)
    assert answer.status == 0
    assert answer.error
