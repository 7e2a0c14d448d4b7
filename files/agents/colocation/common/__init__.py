# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What every agent has: configuration, log, health, metrics, status page, and the way to the Kubernetes API."""
