# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Offers devices to the kubelet: what a source counts becomes an extended resource of the node."""

COMPONENT = "colocation-device-plugin"  # as its events name it
