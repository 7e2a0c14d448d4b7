# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""`colocation-device-plugin`, which is `python3 -m colocation.device_plugin`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from colocation.common import command_line
from colocation.device_plugin.config import Config

if TYPE_CHECKING:
    from colocation.common.metrics import Registry
    from colocation.device_plugin.agent import DevicePluginAgent


def _make(registry: Registry) -> DevicePluginAgent:
    from colocation.device_plugin.agent import DevicePluginAgent  # with grpc, which only a running agent needs

    return DevicePluginAgent(registry)


AGENT = command_line.Agent(
    module="colocation.device_plugin",
    about="Offers devices to the kubelet, from the sources that its configuration names.",
    schema=Config,
    config_file="/etc/colocation/device-plugin.yaml",
    place=lambda config: command_line.Place(config.status.address, config.status.port),
    log_level=lambda config: config.log_level,
    make=_make,
    program="colocation-device-plugin",
)

if __name__ == "__main__":
    sys.exit(command_line.main(AGENT))
