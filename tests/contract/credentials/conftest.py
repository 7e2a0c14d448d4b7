# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Real API servers, and nodes of which nothing is real but what the credentials are made from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import KUBERNETES_MINORS
from ansible_collections.colocation.kubernetes.tests.contract.api_server import ApiServer


@pytest.fixture(scope="module", params=KUBERNETES_MINORS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server of each version that we test with."""
    with ApiServer(tmp_path_factory.mktemp("api"), request.param) as made:
        yield made
