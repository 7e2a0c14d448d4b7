# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""From an access to what a connection needs: a TLS context and the Authorization header, read from their files now."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_access import Access, AccessError, Material
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_exec import run_plugin


@dataclass(frozen=True, slots=True)
class Proof:
    """Who we are, in the shape of a connection."""

    context: ssl.SSLContext
    authorization: str = field(repr=False)  # empty: the certificate is all, or nothing is
    secrets: tuple[str, ...] = field(default=(), repr=False)  # what came from files and programs


def make_proof(access: Access) -> Proof:
    """Read what the access names; each call reads again, for tokens and certificates are rotated."""
    token, certificate, key = access.token, access.certificate, access.key
    if access.exec_plugin is not None and not token and not certificate:
        printed = run_plugin(access.exec_plugin)
        token = Material(content=printed.token)
        certificate, key = Material(content=printed.certificate), Material(content=printed.key)
    text = _token(token)
    authorization = f"Bearer {text}" if text else ""
    if not text and access.username:
        pair = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
        authorization = f"Basic {pair}"
    secrets = tuple(filter(None, (text, key.content, authorization.partition(" ")[2])))
    return Proof(_context(access, certificate, key), authorization, secrets)


def _token(token: Material) -> str:
    text = token.content
    if token.file:
        try:
            with open(token.file, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
            raise AccessError(f"the token in {token.file} can't be read: {reason}") from None
    text = text.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise AccessError("the token holds characters that no token has")
    return text


def _context(access: Access, certificate: Material, key: Material) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca.file or None, cadata=access.ca.content or None)
    except (OSError, ssl.SSLError) as problem:
        where = access.ca.file or f"in {access.source}"
        raise AccessError(f"the certificate authority {where} can't be read: {_words(problem)}") from None
    # Python 3.13 and later want extensions that authorities made by older Kubernetes do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if bool(certificate) != bool(key) and certificate.content:
        raise AccessError(f"{access.source}: a client certificate and its key belong together; one is missing")
    if certificate:
        try:
            _load(context, certificate, key)
        except (OSError, ssl.SSLError) as problem:
            where = certificate.file or f"of {access.source}"
            raise AccessError(f"the client certificate {where} can't be used: {_words(problem)}") from None
    return context


def _load(context: ssl.SSLContext, certificate: Material, key: Material) -> None:
    """ssl reads files only."""
    with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
        # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it an error.
        context.load_cert_chain(certificate_file, key_file or None, password="")


@contextmanager
def _as_file(material: Material) -> Iterator[str]:
    """The path of a file with the content: in memory where the system can, else ours alone and gone at once."""
    if not material.content:
        yield material.file
        return
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        memory = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(memory, material.content.encode())
            yield f"/proc/self/fd/{memory}"
        finally:
            os.close(memory)
        return
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(material.content)
        yield path
    finally:
        os.unlink(path)


def _words(problem: Exception) -> str:
    strerror = getattr(problem, "strerror", None)
    return strerror or str(problem) or type(problem).__name__
