# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The CRI proxy: between the kubelet and the container runtime, placing containers on CPU caches."""
