# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A real Kubernetes cluster on one machine: native control plane, worker nodes in QEMU, nothing outside."""
