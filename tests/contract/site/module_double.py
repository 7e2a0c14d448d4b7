# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
# WANT_JSON
"""Stands in for every module that site.yml, verify.yml and uninstall.yml run on a node: a node is a JSON file, which
SITE_NODE names.

standing   what was made, a key for each module and thing; what stands is not made twice
answers    what modules answer beside `changed`, by their names
log        what was called, in order, with "check" where it was in check mode
"""

import json
import os
import sys

MODULE = os.path.basename(__file__).replace("AnsiballZ_", "").partition(".")[0]
ONLY_LOOK = ("agent_credentials_info", "node_capacity_info", "node_facts", "node_health", "node_ready")


def key(arguments):
    named = (arguments.get(name) for name in ("name", "path", "component", "root", "labels"))
    thing = next((value for value in named if value), "")
    return f"{MODULE} {' '.join(thing) if isinstance(thing, (list, dict)) else thing}".strip()


def owners(node):
    """As node_facts reads them: an agent stands under its name, all else is node_prep's."""
    agents = [thing.split()[1] for thing in node["standing"] if thing.startswith("agent_service ")]
    return sorted(set(agents) | ({"node_prep"} if node["standing"] else set()))


def do(node, arguments):
    check = bool(arguments.get("_ansible_check_mode"))
    thing = key(arguments)
    absent = arguments.get("state") == "absent"
    node["log"].append(" ".join(filter(None, [thing, "absent" if absent else "", "check" if check else ""])))
    answer = dict(node["answers"].get(MODULE, {}))
    if MODULE == "node_facts":
        answer["node"] = {**answer["node"], "owners": owners(node)}
    if MODULE == "node_restore":
        put_back = [one for one in node["standing"] if not one.startswith(("agent_", "kube_"))]
        node["standing"] = node["standing"] if check else [one for one in node["standing"] if one not in put_back]
        return {**answer, "changed": bool(put_back)}
    changed = MODULE not in ONLY_LOOK and (thing in node["standing"]) == absent
    if changed and not check:
        (node["standing"].remove if absent else node["standing"].append)(thing)
    return {**answer, "changed": changed}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        arguments = json.load(file)
    path = os.environ["SITE_NODE"]
    with open(path, encoding="utf-8") as file:
        node = json.load(file)
    answer = do(node, arguments)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(node, file)
    print(json.dumps(answer))


main()
