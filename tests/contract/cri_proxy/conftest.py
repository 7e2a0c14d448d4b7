# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A relay in a directory whose sockets' paths stay short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.contract.cri_proxy.cri_parts import RuntimeDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.cri_requests import PolicyDouble
from ansible_collections.colocation.kubernetes.tests.unit.agents.cri_proxy.relay_site import Site, site
from colocation.cri_proxy.calls import Edit

EDIT = Edit(cpuset_cpus="4-7", cpuset_mems="1", memory_limit=1 << 31)


@pytest.fixture
def policy() -> PolicyDouble:
    return PolicyDouble(EDIT)


@pytest.fixture
def placed(policy: PolicyDouble) -> Iterator[Site]:
    """With a policy that edits each container."""
    with site(policy) as made:
        yield made


@pytest.fixture
def plain() -> Iterator[Site]:
    """Without one."""
    with site(None) as made:
        yield made


@pytest.fixture
def runtime(placed: Site) -> Iterator[RuntimeDouble]:
    double = RuntimeDouble(Path(placed.runtime))
    yield double
    double.stop()
