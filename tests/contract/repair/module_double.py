# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
# WANT_JSON
"""Stands in for every module that repair.yml runs on a node: a node is a JSON file, which REPAIR_NODE names.

findings   what node_health finds now: IDs
table      each ID as node_health tells it
heals      by step, the IDs that go with it
breaks     steps that fail
records    of CNI; while one is there cni-record is found
log        what was called, in order, with "check" where it was in check mode
"""

import json
import os
import sys

MODULE = os.path.basename(__file__).replace("AnsiballZ_", "").partition(".")[0]
STEPS = {
    "containerd_config": "containerd",
    "node_package": "install",
    "node_swap": "swap",
    "kubelet_mend": "kubelet",
    "rejoin_double": "rejoin",
}


def health(node):
    records = [path for path in node["records"] if os.path.exists(path)]
    findings = [node["table"][name] for name in node["findings"] if records or name != "cni-record"]
    units = sorted({finding["unit"] for finding in findings if finding["unit"]})
    return {
        "healthy": not any(finding["steps"] or finding["severity"] == "critical" for finding in findings),
        "findings": findings,
        "units": {"start": [], "restart": units},
        "cgroup_driver": "systemd",
        "server": node.get("server", ""),
        "cni_records": records,
    }


def do(node, arguments):
    if MODULE == "node_health":
        return health(node)
    step = STEPS.get(MODULE) or ("containerd-unit" if "containerd" in arguments["name"] else "restart")
    if MODULE == "node_unit" and arguments.get("remember", True):
        step += "-remembered"  # an uninstall would put the broken state back
    check = bool(arguments.get("_ansible_check_mode"))
    told = f" {arguments['server']}" if arguments.get("server") else ""
    node["log"].append(step + told + (" check" if check else ""))
    if step in node["breaks"]:
        return {"failed": True, "msg": f"{step} can't be done"}
    if not check:
        node["findings"] = [name for name in node["findings"] if name not in node["heals"].get(step, ())]
    return {"changed": True, "restart_needed": False}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        arguments = json.load(file)
    path = os.environ["REPAIR_NODE"]
    with open(path, encoding="utf-8") as file:
        node = json.load(file)
    answer = do(node, arguments)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(node, file)
    print(json.dumps({"changed": False, **answer}))


main()
