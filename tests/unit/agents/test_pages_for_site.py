# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The agents' pages have what the table of site.yml reads of them, though neither imports the other."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.colocation.kubernetes.plugins.module_utils._site_report import (
    CONTAINERS,
    CPUS,
    MACHINE,
    NAME,
    PLACE,
)
from colocation.cri_proxy import agent as agent_of_proxy
from colocation.cri_proxy import picture
from colocation.device_plugin import agent as agent_of_plugin


def test_the_agents_pages_still_have_what_is_read_of_them() -> None:
    proxy = Path(agent_of_proxy.__file__).read_text()
    assert picture.CONTAINERS == CONTAINERS and {NAME, CPUS, PLACE} <= set(picture.COLUMNS)
    assert f'("{MACHINE}", picture.summary(' in proxy
    plugin = Path(agent_of_plugin.__file__)
    waits = (plugin.parents[4] / "playbooks/verify.yml").read_text()
    assert agent_of_plugin.COLUMNS[:2] == ("resource", "devices")
    assert 'Table("Resources", COLUMNS' in plugin.read_text() and "'title', 'eq', 'Resources'" in waits
