# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""`cri-resmgr`, which is `python3 -m colocation.cri_proxy`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from colocation.common import command_line
from colocation.cri_proxy import commands
from colocation.cri_proxy.config import FILE, Config, salvaged

if TYPE_CHECKING:
    from colocation.common.metrics import Registry
    from colocation.cri_proxy.agent import CriProxyAgent


def _make(registry: Registry) -> CriProxyAgent:
    from colocation.cri_proxy.agent import CriProxyAgent  # with protobuf, which only a running agent needs

    return CriProxyAgent(registry)


AGENT = command_line.Agent(
    module="colocation.cri_proxy",
    program="cri-resmgr",
    about="Stands between the kubelet and the container runtime, and places containers on CPU caches.",
    schema=Config,
    config_file=FILE,
    place=lambda config: command_line.Place(config.status.address, config.status.port),
    log_level=lambda config: config.level,
    make=_make,
    more=commands.add,
    fallback=salvaged,
)

if __name__ == "__main__":
    sys.exit(command_line.main(AGENT))
