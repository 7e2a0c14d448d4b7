# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Certificates and tokens for tests, of any age."""

from __future__ import annotations

import base64
import datetime
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(user: str, begins: float, ends: float, group: str = "system:nodes") -> str:
    """A certificate in PEM that names a user and a group; the times are seconds since 1970."""
    names = [(x509.NameOID.ORGANIZATION_NAME, group), (x509.NameOID.COMMON_NAME, user)]
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names if value])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "the authority")]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(EPOCH + datetime.timedelta(seconds=begins))
        .not_valid_after(EPOCH + datetime.timedelta(seconds=ends))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


AUTHORITY = certificate("the authority", 0, 4 * 10**9, group="")


def key() -> str:
    """The key of them all, in PEM."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return KEY.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def token(user: str, begins: float, ends: float) -> str:
    """A token with these claims; nobody signed it."""
    claims = {"sub": user, "iat": begins, "exp": ends}
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims, 0)
    )


def kubeconfig(user: dict[str, object], **cluster: object) -> str:
    """A kubeconfig with that user."""
    server = {"server": "https://10.0.0.1:6443", "certificate-authority-data": coded(AUTHORITY)}
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": server | cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
