# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Stands in for node_rejoin_host in a play: the host is a JSON file, which REJOIN_HOST names.

host        the fields of a HostDouble
kubeconfig  with which its kubelet speaks
breaks      steps that fail
log         steps that were called, in order
proxy       through which it joined
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import KubeClient
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_find import find_access
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import KeptFile
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.rejoin_doubles import HostDouble

KEPT = ("identity", "mark", "kubelet_runs", "pods_run", "agents_run", "machine_id", "flags", "units")


def do(host: HostDouble, arguments: dict[str, Any]) -> dict[str, Any]:
    step = arguments["step"]
    if step == "look":
        view, files = host.look()
        facts = {name: getattr(view, name) for name in type(view).__slots__}
        return {"host": facts, "files": [asdict(one) for one in files], "minted": None}
    if step == "journal":
        return {"journal": "last words of the kubelet"}
    if step == "stop":
        return {"changed": True, "proof": host.stop(arguments["operation"])}
    if step == "reset":
        host.reset(arguments["operation"])
    elif step == "join":
        files = tuple(KeptFile(**one) for one in arguments["files"])
        host.join(arguments["way"], files, arguments["kubelet_flags"])
        host.follow()
    else:
        host.start(tuple(arguments["units"]))
        host.follow()
    return {"changed": True}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        arguments = json.load(file)
    path = os.environ["REJOIN_HOST"]
    with open(path, encoding="utf-8") as file:
        state = json.load(file)
    client = KubeClient(find_access({"kubeconfig": state["kubeconfig"]}))
    host = HostDouble(client, state["node"], **{name: state["host"][name] for name in KEPT})
    host.files = tuple(KeptFile(**one) for one in state["host"]["files"])
    if arguments["step"] in state["breaks"]:
        answer = {"failed": True, "msg": f"{arguments['step']} can't be done"}
    else:
        answer = do(host, arguments)
    state["host"] = {name: getattr(host, name) for name in KEPT} | {"files": [asdict(one) for one in host.files]}
    state["log"].append(arguments["step"])
    if arguments["step"] == "join":
        state["proxy"] = arguments["proxy"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(state, file)
    client.close()
    print(json.dumps({"changed": False, **answer}))


if __name__ == "__main__":
    main()
