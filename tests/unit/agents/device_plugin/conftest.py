# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the API server, and a client of it that asks once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    ApiDouble,
    Authority,
)
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import KubeApi
from colocation.common.retry import Backoff


@pytest.fixture
def api(double: ApiDouble, authority: Authority, tmp_path: Path) -> KubeApi:
    (tmp_path / "token").write_text("t")
    ca = Material(str(authority.certificate))
    access = Access("127.0.0.1", double.server_address[1], ca, token=Material(str(tmp_path / "token")))
    return KubeApi(lambda: access, timeout=3, backoff=Backoff(tries=1))
