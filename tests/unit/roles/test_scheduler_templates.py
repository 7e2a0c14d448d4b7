# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the role scheduler puts into a cluster: names, rights, limits, and a configuration that the extender takes.

kube-scheduler itself judges its part in tests/contract/scheduler.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import re
from typing import Any

import pytest
import yaml

from ansible_collections.colocation.kubernetes.tests.role_rendering import Rendered
from colocation.common.config import load
from colocation.common.events import About
from colocation.common.kube_access import ACCOUNT, from_kubeconfig
from colocation.scheduler.config import Config
from colocation.scheduler.teller import own_pod

CLUSTER = {
    "version": "1.36.3",
    "minor": 36,
    "image_repository": "mirror.example/k8s",
    "service_address": "https://10.96.0.1:443",
    "api_groups": ["apps"],
    "nodes": [],
}
Objects = dict[tuple[str, str], dict[str, Any]]


def role(**said: Any) -> Rendered:
    code = {"content": base64.b64encode(b"code").decode(), "sha256": "0123456789abcdef"}
    return Rendered("scheduler", **{"__scheduler_cluster": CLUSTER, "__scheduler_zipapp": code, **said})


def objects(**said: Any) -> Objects:
    return copy.deepcopy(rendered(json.dumps(said)))


@functools.cache
def rendered(said: str) -> Objects:
    """Once for all tests: it takes Ansible half a second."""
    return {(one["kind"], one["metadata"]["name"]): one for one in role(**json.loads(said))["__scheduler_objects"]}


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        ([{}], {"test.com/colocation-memory": "512Mi"}),
        ([{"mock": {"a.com/b": 1}}, None], {"test.com/colocation-memory": "512Mi"}),
        ([{"memory": {"test.com/colocation-memory": {"unit_mib": 64}}}, None], {"test.com/colocation-memory": "64Mi"}),
        ([{"memory": {"my.com/memory": {}}}, {"memory": {"my.com/memory": {}}}], {"my.com/memory": "512Mi"}),
        ([{"memory": {"my.com/memory": None}}], {"my.com/memory": "512Mi"}),
    ],
)
def test_the_extender_knows_how_large_blocks_are(offered: list[Any], known: dict[str, str]) -> None:
    """In flight, a block of 64 MiB that is taken for 512 makes an idle node full."""
    names = [f"worker{number}" for number in range(len(offered))]
    told: list[dict[str, Any]] = [{} if one is None else {"device_plugin_resources": one} for one in offered]
    found = role(groups={"kube_node": names}, hostvars=dict(zip(names, told, strict=True)))
    config = load(Config, found["__scheduler_extender_yaml"], "extender.yaml")
    assert dict(config.in_flight.memory_resources) == known


def pod(found: Objects) -> dict[str, Any]:
    spec: dict[str, Any] = found["Deployment", "schedulingplugin-mem-usage"]["spec"]["template"]["spec"]
    return spec


def secret(found: Objects) -> dict[str, str]:
    data = found["Secret", "kube-scheduler-mem-secret"]["data"]
    return {name: base64.b64decode(content).decode() for name, content in data.items()}


def test_the_names_that_users_know() -> None:
    found = objects()
    assert set(secret(found)) == {
        "scheduler.conf", "MemRealUsage-scheduler-conf.yaml", "extender.yaml", "extender.conf",
    }  # fmt: skip
    assert ("ClusterRole", "system:kube-scheduler:plugins") in found
    assert ("ClusterRoleBinding", "system:kube-scheduler:plugins") in found
    config = yaml.safe_load(secret(found)["MemRealUsage-scheduler-conf.yaml"])
    assert "mem-real-usage-scheduler" in [profile["schedulerName"] for profile in config["profiles"]]
    assert config["leaderElection"]["resourceName"] != "kube-scheduler"
    assert pod(found)["containers"][0]["image"] == "mirror.example/k8s/kube-scheduler:v1.36.3"


def test_its_profiles_are_those_that_the_extender_knows() -> None:
    config = yaml.safe_load(secret(objects())["MemRealUsage-scheduler-conf.yaml"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == list(Config().profiles)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"scheduler_prometheus": "http://10.96.0.102:9090", "scheduler_query_time_seconds": 3},
        {"scheduler_source": "metrics-api", "scheduler_profiles": {"batch": {"weights": {"cpu": 2, "memory": 1}}}},
        {"scheduler_extender_config": {"in_flight": {"estimate": "limit"}, "log_decisions": True}},
    ],
)
def test_the_extender_takes_its_configuration(said: dict[str, Any]) -> None:
    config = load(Config, secret(objects(**said))["extender.yaml"], "extender.yaml")
    assert config.listen.address == "127.0.0.1", "nobody but kube-scheduler may ask it"
    assert config.prometheusApiAddr == said.get("scheduler_prometheus", "")
    if "scheduler_profiles" in said:
        assert list(config.profiles) == ["batch"]


@pytest.mark.parametrize(
    ("service", "address"), [("https://10.96.0.1:443", "0.0.0.0"), ("https://[fd00::1]:443", "::")]
)
def test_the_page_is_where_the_clusters_kubelets_probe(service: str, address: str) -> None:
    text = secret(objects(__scheduler_cluster={**CLUSTER, "service_address": service}))["extender.yaml"]
    assert load(Config, text, "extender.yaml").status.address == address


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"scheduler_identity": "kubeconfig", "__scheduler_read": {"kubeconfig": "a copy"}},
        {"scheduler_mode": "hostpath"},
    ],
)
def test_the_extender_asks_the_api_server_that_is_named_with_its_own_account(said: dict[str, Any]) -> None:
    found = objects(scheduler_api_server="https://api.example:6443", **said)
    file = load(Config, secret(found)["extender.yaml"], "extender.yaml").kubeconfig
    mounts = {one["mountPath"]: one.get("subPath") for one in pod(found)["containers"][1]["volumeMounts"]}
    access = from_kubeconfig(secret(found)[mounts[file]], file)
    assert (access.server, access.token.file) == ("https://api.example:6443", f"{ACCOUNT}/token")


def test_nothing_runs_with_more_than_it_needs() -> None:
    spec = pod(objects())
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"]
    for container in spec["containers"]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["resources"]["requests"] and container["livenessProbe"] and container["readinessProbe"]
    assert not spec.get("hostNetwork") and not spec.get("hostPID")


def test_an_extender_that_hangs_is_started_again() -> None:
    extender = pod(objects())["containers"][1]
    assert extender["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "status"}
    assert extender["readinessProbe"]["httpGet"]["path"] == "/healthz", "which also tells what no new process mends"


def test_what_is_said_on_the_command_line_is_text() -> None:
    said = {
        "scheduler_replicas": "1",
        "scheduler_service": "false",
        "scheduler_extender_filter": "false",
        "scheduler_extender_port": "9500",
        "scheduler_query_time_seconds": "3",
        "scheduler_prometheus": "http://p:9090",
    }
    found = objects(**said)
    config = load(Config, secret(found)["extender.yaml"], "extender.yaml")
    assert (config.listen.port, config.queryMetricTimeSeconds) == (9500, 3.0)
    assert not [name for kind, name in found if kind in ("Service", "PodDisruptionBudget")]
    assert "filterVerb" not in secret(found)["MemRealUsage-scheduler-conf.yaml"]
    assert role(**said)["__scheduler_misfits"] == []


def test_rights_follow_the_source() -> None:
    def rules(**said: Any) -> str:
        return str([one["rules"] for (kind, _name), one in objects(**said).items() if kind in ("ClusterRole", "Role")])

    assert "nodes/metrics" in rules()
    assert "nodes/metrics" not in rules(scheduler_prometheus="http://p:9090")
    assert "serviceaccounts" not in rules(scheduler_prometheus="http://p:9090")
    assert "metrics.k8s.io" in rules(scheduler_source="metrics-api")
    assert "proxy" not in rules() and "'*'" not in rules() and "secrets" not in rules()


@pytest.mark.parametrize("mode", ["deployment", "hostpath"])
def test_kubelets_are_shown_an_account_that_can_do_nothing_else(mode: str) -> None:
    found = objects(scheduler_mode=mode)
    config = load(Config, secret(found)["extender.yaml"], "extender.yaml")
    name = "schedulingplugin-mem-usage-kubelets"
    assert config.kubelets.account == f"kube-system/{name}"
    assert ("ServiceAccount", name) in found
    held = [
        one["roleRef"]
        for (kind, _name), one in found.items()
        if kind.endswith("Binding") and name in [subject["name"] for subject in one["subjects"]]
    ]
    assert [(role["kind"], role["name"]) for role in held] == [
        ("ClusterRole", "system:kube-scheduler:plugins:kubelets")
    ]
    rules = found["ClusterRole", "system:kube-scheduler:plugins:kubelets"]["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}]
    (minting,) = found["Role", "system:kube-scheduler:plugins:kubelets"]["rules"]
    assert (minting["resourceNames"], minting["verbs"]) == ([name], ["create"])


@pytest.mark.parametrize("mode", ["deployment", "hostpath"])
def test_the_extender_may_write_events_beside_its_pod_alone(mode: str) -> None:
    found = objects(scheduler_mode=mode)
    role = found["Role", "system:kube-scheduler:plugins:events"]
    assert role["metadata"]["namespace"] == "kube-system"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
    (subject,) = found["RoleBinding", "system:kube-scheduler:plugins:events"]["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", pod(found)["serviceAccountName"])
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in pod(found)["containers"][1]["env"]}
    about = own_pod({name: f"the {path}" for name, path in fields.items()})
    assert about == About("Pod", "the metadata.name", "the metadata.uid", "the metadata.namespace")


def test_the_seeds_identity() -> None:
    found = objects(scheduler_identity="kubeconfig", __scheduler_read={"kubeconfig": "a copy"})
    assert secret(found)["scheduler.conf"] == "a copy"
    subjects = found["RoleBinding", "system:kube-scheduler:plugins"]["subjects"]
    assert subjects[0]["name"] == "system:kube-scheduler"
    assert not [name for _kind, name in found if name.endswith(":volume-scheduler")], "that user has it already"


def test_hostpath_copies_no_credentials_and_stays_on_the_control_plane() -> None:
    found = objects(scheduler_mode="hostpath", scheduler_node_selector={"disk": "fast"})
    assert "scheduler.conf" not in secret(found)
    spec = pod(found)
    assert spec["nodeSelector"] == {"node-role.kubernetes.io/control-plane": "", "disk": "fast"}
    assert [one for one in spec["volumes"] if "hostPath" in one] == [
        {"name": "scheduler-conf", "hostPath": {"path": "/etc/kubernetes/scheduler.conf", "type": "File"}}
    ]
    scheduler, extender = spec["containers"]
    assert scheduler["securityContext"]["runAsUser"] == 0, "scheduler.conf is root's alone"
    assert "runAsUser" not in extender["securityContext"]


def test_what_prometheus_wants_to_see_is_at_hand_in_a_directory_that_follows_its_secret() -> None:
    made = role(scheduler_prometheus_secret="access")
    for spec in (pod(objects(scheduler_prometheus_secret="access")), made["__scheduler_trial_pod"]):
        assert {"name": "prometheus", "secret": {"secretName": "access"}} in spec["volumes"]
        mounts = {one["mountPath"]: one for one in spec["containers"][1]["volumeMounts"]}
        assert "subPath" not in mounts["/etc/colocation/prometheus"]
        assert "/etc/colocation/prometheus" not in str(spec["containers"][0]), "kube-scheduler has no use for it"
    assert "prometheus" not in str(pod(objects())["volumes"])


def test_another_configuration_or_code_is_another_pod() -> None:
    def template(**said: Any) -> Any:
        return objects(**said)["Deployment", "schedulingplugin-mem-usage"]["spec"]["template"]

    assert template() == template()
    assert template() != template(scheduler_extender_weight=11)
    assert template() != template(scheduler_extender_config={"log_decisions": True})
    assert template() != template(__scheduler_zipapp={"content": "bmV3", "sha256": "fedcba9876543210"})


def test_the_trial_has_the_same_configuration_and_only_judges_it() -> None:
    made = role()
    trial = {one["kind"]: one for one in made["__scheduler_trial"]}
    names = {one["metadata"]["name"] for one in trial.values()}
    assert not names & {one["metadata"]["name"] for one in made["__scheduler_objects"]}, "it is removed afterwards"
    assert trial["Secret"]["data"] == made["__scheduler_secret_data"]
    commands = [container["command"] for container in trial["Pod"]["spec"]["containers"]]
    assert "--write-config-to=/dev/null" in commands[0] and "--check-config" in commands[1]
    assert trial["Pod"]["spec"]["restartPolicy"] == "Never"


def test_default_scores() -> None:
    def scores(**said: Any) -> Any:
        profile = yaml.safe_load(secret(objects(**said))["MemRealUsage-scheduler-conf.yaml"])["profiles"][0]
        return profile["plugins"]["score"]

    assert scores()["disabled"] == [{"name": "*"}]
    assert {"name": "NodeResourcesFit", "weight": 1} in scores()["enabled"]
    assert scores(scheduler_default_scores={}) == {"disabled": [{"name": "*"}], "enabled": []}


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({}, "all"),
        ({"scheduler_default_scores": {}}, "best"),
        ({"scheduler_default_scores": {}, "scheduler_kube_scheduler_config": {"parallelism": 8}}, "best"),
        ({"scheduler_default_scores": {}, "scheduler_kube_scheduler_config": {"profiles": []}}, "all"),
        ({"scheduler_default_scores": {}, "scheduler_kube_scheduler_config": {"extenders": []}}, "all"),
        ({"scheduler_default_scores": {}, "scheduler_extender_config": {"answer": "all"}}, "all"),
    ],
)
def test_only_where_no_other_score_counts_the_favourite_is_answered_alone(said: dict[str, Any], answer: str) -> None:
    config = load(Config, role(**said)["__scheduler_extender_yaml"], "extender.yaml")
    assert config.answer == answer


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"scheduler_source": "prometheus"}, "scheduler_prometheus must name its address"),
        ({"scheduler_lease": "kube-scheduler"}, "which the scheduler of the cluster itself has"),
        ({"scheduler_replicas": 0}, "one is the least"),
        ({"scheduler_profiles": {"batch": {}, "default-scheduler": {}}}, "two would place its pods"),
        ({"scheduler_kube_scheduler_config": {"profiles": [{"plugins": {}}]}}, "two would place its pods"),
        ({"scheduler_kube_scheduler_config": {"profiles": []}}, "two would place its pods"),
        (
            {"scheduler_extender_config": {"profiles": {"mine": {}}, "listen": {"port": 9999}}},
            "Say it with scheduler_profiles, scheduler_extender_port.",
        ),
        ({"scheduler_extender_config": {"prometheusApiAddr": "http://p:9090"}}, "Say it with scheduler_prometheus."),
        ({"scheduler_extender_config": {"status": {"port": 9}}}, "status.port, which not only"),
    ],
)
def test_what_does_not_fit_is_told(said: dict[str, Any], why: str) -> None:
    assert role()["__scheduler_misfits"] == []
    assert why in str(role(**said)["__scheduler_misfits"])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"scheduler_source": "metrics-api"}, "no metrics.k8s.io"),
        ({"scheduler_mode": "hostpath"}, "no Node of this cluster is a control plane"),
    ],
)
def test_and_what_the_cluster_lacks(said: dict[str, Any], why: str) -> None:
    assert role()["__scheduler_lacks"] == []
    assert why in str(role(**said)["__scheduler_lacks"])


def test_prometheus_in_the_cluster_finds_it_by_any_name() -> None:
    images = {"monitoring_prometheus_image": "p", "monitoring_exporter_image": "e"}
    settings = yaml.safe_load(Rendered("monitoring", **images)["__monitoring_settings"])
    (job,) = (one for one in settings["scrape_configs"] if one["job_name"] == "colocation-scheduler")
    (kept,) = job["relabel_configs"]
    template = objects(scheduler_name="ours")["Deployment", "ours"]["spec"]["template"]
    (port,) = template["spec"]["containers"][1]["ports"]
    seen = {"container_port_name": port["name"]}
    seen |= {"label_" + re.sub(r"[./-]", "_", name): value for name, value in template["metadata"]["labels"].items()}
    values = (seen.get(label.removeprefix("__meta_kubernetes_pod_"), "") for label in kept["source_labels"])
    assert re.fullmatch(kept["regex"], ";".join(values))


def test_replicas_that_are_not_ready_do_not_hold_up_a_drain() -> None:
    def budget(minor: int) -> Any:
        found = objects(__scheduler_cluster={**CLUSTER, "minor": minor})
        return found["PodDisruptionBudget", "schedulingplugin-mem-usage"]["spec"]

    assert budget(27)["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "unhealthyPodEvictionPolicy" not in budget(26), "its API server refuses what it does not know"


def test_older_clusters_get_what_they_know() -> None:
    old = role(__scheduler_cluster={**CLUSTER, "minor": 24})
    config = yaml.safe_load(old["__scheduler_config_yaml"])
    assert config["apiVersion"] == "kubescheduler.config.k8s.io/v1beta3"
    assert (
        pod(objects(__scheduler_cluster={**CLUSTER, "minor": 30}))["containers"][0]["readinessProbe"]["httpGet"]["path"]
        == "/healthz"
    )
