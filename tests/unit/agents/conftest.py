# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""An authority for TLS, and a double of the API server that has a certificate of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.colocation.kubernetes.tests.unit.agents.common.api_double import (
    ApiDouble,
    Authority,
    api_double,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def double(authority: Authority) -> Iterator[ApiDouble]:
    with api_double(authority) as made:
        yield made
