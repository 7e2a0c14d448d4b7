# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A double of the API server, and a client of it that asks once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    ApiDouble,
    Authority,
    api_double,
)
from colocation.common.kube_access import Access, Material
from colocation.common.kube_api import KubeApi
from colocation.common.retry import Backoff


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def double(authority: Authority) -> Iterator[ApiDouble]:
    with api_double(authority) as made:
        yield made


@pytest.fixture
def api(double: ApiDouble, authority: Authority, tmp_path: Path) -> KubeApi:
    (tmp_path / "token").write_text("t")
    ca = Material(str(authority.certificate))
    access = Access("127.0.0.1", double.server_address[1], ca, token=Material(str(tmp_path / "token")))
    return KubeApi(lambda: access, timeout=3, backoff=Backoff(tries=1))
