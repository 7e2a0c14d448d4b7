#!/usr/bin/python
# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: prometheus_nodes_info
short_description: Whether Prometheus tells the real use of every node
version_added: 0.1.0
author:
  - colocation.kubernetes contributors (@colocation)
description:
  - Asks a Prometheus what the scheduler's extender will ask it, and looks whether each node has one good value.
  - Where there is not, it looks why - no rule, no exporter, one that is down, series without the node's name, values in
    another unit - and says what to do, with the lines of configuration where there are any.
extends_documentation_fragment:
  - colocation.kubernetes.attributes
attributes:
  check_mode:
    support: full
    details: It only reads.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  addresses:
    description: The addresses of Prometheus. Each is asked.
    type: list
    elements: str
    required: true
  nodes:
    description: The nodes' names in the API, and of each the address by which it is scraped.
    type: dict
    required: true
  memory:
    description: The query for memory.
    type: str
    default: node_mem_usage_avg_5m
  cpu:
    description: The query for processors.
    type: str
    default: node_cpu_usage_avg_5m
  node_label:
    description: The label that has the node's name.
    type: str
    default: node
  unit:
    description: What the queries give.
    type: str
    choices: [percent, ratio, absolute]
    default: percent
  token:
    description: A bearer token for Prometheus.
    type: str
  username:
    description: A name for HTTP basic authentication.
    type: str
  password:
    description: The password for O(username).
    type: str
  ca_cert:
    description: A file with the authority of its certificate.
    type: path
  validate_certs:
    description: Whether its certificate is checked.
    type: bool
    default: true
  timeout:
    description: Seconds for one answer.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Look whether Prometheus knows the nodes
  colocation.kubernetes.prometheus_nodes_info:
    addresses: [http://10.96.0.102:9090]
    nodes: {worker1: 10.0.0.11, worker2: 10.0.0.12}
  register: answers

- name: Say what is missing
  ansible.builtin.debug:
    msg: "{{ answers.findings }}"
"""

RETURN = r"""
findings:
  description: What is missing; empty where every query has a good value for every node.
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: Of which Prometheus.
      type: str
    what:
      description: What was found.
      type: str
      sample: node_mem_usage_avg_5m has no value for these nodes
    nodes:
      description: The nodes that it concerns.
      type: list
      elements: str
    remedy:
      description: What to do.
      type: str
    snippet:
      description: Lines of configuration that do it, or nothing.
      type: str
    needs:
      description: V(rules) where the collection's rules would do.
      type: str
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.colocation.kubernetes.plugins.module_utils._prometheus import (
    Prometheus,
    PrometheusError,
    Reach,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._prometheus_check import Finding, Wanted, check

ARGUMENTS = {
    "addresses": {"type": "list", "elements": "str", "required": True},
    "nodes": {"type": "dict", "required": True},
    "memory": {"type": "str", "default": "node_mem_usage_avg_5m"},
    "cpu": {"type": "str", "default": "node_cpu_usage_avg_5m"},
    "node_label": {"type": "str", "default": "node"},
    "unit": {"type": "str", "choices": ["percent", "ratio", "absolute"], "default": "percent"},
    "token": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "ca_cert": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 10},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    wanted = Wanted(
        {"memory": given["memory"], "cpu": given["cpu"]},
        given["node_label"],
        given["unit"],
        {name: str(address or "") for name, address in given["nodes"].items()},
    )
    findings = []
    for address in given["addresses"]:
        reach = Reach(
            address,
            given["token"] or "",
            given["username"] or "",
            given["password"] or "",
            given["ca_cert"] or "",
            given["validate_certs"],
            given["timeout"],
        )
        try:
            found = check(Prometheus(reach), wanted)
        except (PrometheusError, OSError) as problem:
            found = [Finding(str(problem), tuple(wanted.nodes), "see that it runs and can be reached from this host")]
        findings += [{"address": address, **dataclasses.asdict(one)} for one in found]
    module.exit_json(changed=False, findings=findings)


if __name__ == "__main__":
    main()
