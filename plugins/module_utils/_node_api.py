# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Does the API server answer a node? Asked without rights: a 401 or 403 is an answer too.

The certificate is checked against the kubelet's own CA where that is known, because a node that remembers another
cluster's CA reaches the address and still can't work; the request is then repeated without the check, so that the
two failures stay apart.
"""

from __future__ import annotations

import email.utils
import http.client
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PATH = "/livez"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    server: str
    status: int  # of the HTTP reply; 0: none came
    error: str  # why none came
    certificate: str  # "verified", "unchecked" or "refused"
    certificate_error: str
    clock: float | None = field(default=None, compare=False)  # the server's, to the second; None: it does not say


def ask_api(server: str, ca_pem: str, timeout: float) -> ApiAnswer:
    """One request, or two where the certificate is refused; each step has the time limit."""
    refusal = ""
    if ca_pem:
        try:
            return _ask(server, _checking(ca_pem), timeout, "verified", "")
        except ssl.SSLCertVerificationError as error:
            refusal = error.verify_message or str(error)
        except ssl.SSLError as error:
            refusal = f"the node's own CA can't be read: {describe(error)}"
    return _ask(server, _unchecking(), timeout, "refused" if refusal else "unchecked", refusal)


def _ask(server: str, context: ssl.SSLContext, timeout: float, certificate: str, certificate_error: str) -> ApiAnswer:
    """Only a refused certificate is raised: every other failure is an answer that did not come."""
    try:
        status, clock = _status(server, context, timeout)
        return ApiAnswer(server, status, "", certificate, certificate_error, clock)
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, ValueError, http.client.HTTPException) as error:
        judged = "unchecked" if certificate == "verified" else certificate
        return ApiAnswer(server, 0, describe(error), judged, certificate_error)


def describe(error: Exception) -> str:
    """The error in words, also where Python leaves its text empty."""
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__


def _checking(ca_pem: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca_pem)
    # Python 3.13 asks for extensions that kubeadm's CA does not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _unchecking() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _status(server: str, context: ssl.SSLContext, timeout: float) -> tuple[int, float | None]:
    url = urlsplit(server)
    if url.scheme != "https" or not url.hostname:
        raise ValueError(f"{server!r} is not an https address")
    connection = http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=timeout, context=context)
    try:
        connection.request("GET", url.path.rstrip("/") + PATH)
        with connection.getresponse() as answer:
            return answer.status, _moment(answer.getheader("Date"))
    finally:
        connection.close()


def _moment(date: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError, OverflowError):
        return None
