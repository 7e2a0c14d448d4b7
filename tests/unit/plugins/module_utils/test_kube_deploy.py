# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A set of objects that gets ready as a whole or is taken back, on a double of the API and with a clock of our own."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import ApiError
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_deploy import NOTE, Wish, deploy
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_objects import Change, ObjectProblem, Objects
from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_workload import Watch
from ansible_collections.colocation.kubernetes.tests.unit.plugins.module_utils.kube_api_double import KubeApiDouble

PODS = "/api/v1/namespaces/n/pods"
CONFIG = "/api/v1/namespaces/n/secrets/config"
NOTED = "/api/v1/namespaces/n/secrets/colocation-part-before"
RUNS = "/apis/apps/v1/namespaces/n/deployments/runs"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reads"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/n/leases/leads"
LIMIT = 30.0


def document(kind: str, name: str, api_version: str = "v1", **content: Any) -> dict[str, Any]:
    namespace = {} if kind == "ClusterRole" else {"namespace": "n"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **namespace}, **content}


def documents(config: str = "good", replicas: int = 1) -> list[dict[str, Any]]:
    template = {"metadata": {"annotations": {"hash": config}}}
    spec = {"replicas": replicas, "template": template, "selector": {"matchLabels": {"app": "runs"}}}
    return [
        document("ClusterRole", "reads", "rbac.authorization.k8s.io/v1", rules=[]),
        document("Secret", "config", data={"key": base64.b64encode(config.encode()).decode()}),
        document("Deployment", "runs", "apps/v1", spec=spec),
    ]


class Cluster:
    """Its Deployments get ready at the first look if their configuration is good, its pods end well if theirs is."""

    def __init__(self) -> None:
        self.api = KubeApiDouble()
        self.api.controllers = self.control
        self.now = 0.0
        self.seen: list[str] = []  # the configurations that pods were given

    def control(self, objects: dict[str, dict[str, Any]]) -> None:
        for path, one in objects.items():
            if one["kind"] == "Deployment":
                good = one["spec"]["template"]["metadata"]["annotations"]["hash"].startswith("good")
                ready = one["spec"]["replicas"] if good else 0
                one["status"] = {
                    "observedGeneration": one["metadata"]["generation"],
                    "updatedReplicas": ready,
                    "availableReplicas": ready,
                    "replicas": ready,
                }
            if path.startswith(PODS + "/trial"):
                self.seen.append(one["spec"]["config"])
                ended = {"name": "main", "state": {"terminated": {"exitCode": int("bad" in one["spec"]["config"])}}}
                phase = "Failed" if "bad" in one["spec"]["config"] else "Succeeded"
                one["status"] = {"phase": phase, "containerStatuses": [ended]}

    def __call__(
        self, wanted: list[dict[str, Any]], state: str = "present", check: bool = False, wait: bool = True, **more: Any
    ) -> list[Change]:
        objects = Objects(self.api, "part", more.pop("adopt", False))
        watch = Watch(objects, LIMIT, lambda: self.now, self.sleep) if wait else None
        return deploy(objects, Wish("part", "n", wanted, **more), watch, state, check)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def config(self) -> str:
        return base64.b64decode(self.api.objects[CONFIG]["data"]["key"]).decode()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def names(changes: list[Change]) -> list[str]:
    return [change.name.name for change in changes]


def test_it_is_had_once_and_check_mode_foretells_it(cluster: Cluster) -> None:
    told = cluster(documents(), check=True)
    assert cluster.api.written == []
    done = cluster(documents())
    assert names(done) == names(told) == ["reads", "config", "runs"]
    written = len(cluster.api.written)
    assert cluster(documents()) == []
    assert [line for line in cluster.api.written[written:] if NOTED in line] == []
    assert NOTED not in cluster.api.objects


def test_what_is_not_wanted_any_more_goes_at_the_end(cluster: Cluster) -> None:
    cluster([*documents(), document("ConfigMap", "code-1", binaryData={})])
    wanted = [*documents("good 2"), document("ConfigMap", "code-2", binaryData={})]
    assert names(cluster(wanted, check=True)) == ["config", "runs", "code-2", "code-1"]
    assert names(cluster(wanted)) == ["config", "runs", "code-2", "code-1"]
    assert cluster(wanted) == []


def test_what_does_not_get_ready_is_put_back(cluster: Cluster) -> None:
    cluster(documents())
    with pytest.raises(ObjectProblem) as told:
        cluster([*documents("wrong"), document("ConfigMap", "new")])
    assert "What stood before was put back and is ready." in str(told.value)
    assert "of 1 pods 0 are new and 0 available" in str(told.value)
    assert cluster.config() == "good"
    assert cluster.api.objects[RUNS]["spec"]["template"]["metadata"]["annotations"] == {"hash": "good"}
    assert not [path for path in cluster.api.objects if path.endswith(("/new", "-before"))]
    assert cluster(documents()) == []


def test_a_first_one_that_does_not_get_ready_is_removed(cluster: Cluster) -> None:
    with pytest.raises(ObjectProblem, match="as nothing stood there before, it was removed again"):
        cluster(documents("wrong"))
    assert cluster.api.objects == {}


def test_what_pods_say_is_told(cluster: Cluster) -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    ended = {"terminated": {"exitCode": 3}}
    status = {"containerStatuses": [{"name": "main", "state": waiting, "lastState": ended}]}
    pod = document("Pod", "runs-x", status=status)
    pod["metadata"]["labels"] = {"app": "runs"}
    cluster.api.objects[f"{PODS}/runs-x"] = pod
    cluster.api.logs["main"] = "one\nunknown plugin Foo\n"
    with pytest.raises(ObjectProblem) as told:
        cluster(documents("wrong"))
    assert "main: CrashLoopBackOff, last exit status 3 back-off" in str(told.value)
    assert "    unknown plugin Foo" in str(told.value)


def test_a_run_that_was_killed_is_taken_back_by_the_next(cluster: Cluster) -> None:
    cluster(documents())
    kill_at(cluster, RUNS)
    with pytest.raises(KeyboardInterrupt):
        cluster(documents("wrong"))
    assert cluster.config() == "wrong"
    assert NOTED in cluster.api.objects
    with pytest.raises(ObjectProblem, match="put back and is ready"):
        cluster(documents("wrong"))
    assert cluster.config() == "good"


def test_or_finished(cluster: Cluster) -> None:
    cluster(documents())
    kill_at(cluster, RUNS)
    with pytest.raises(KeyboardInterrupt):
        cluster(documents("good 2"))
    assert names(cluster(documents("good 2"), check=True)) == ["runs"]
    assert names(cluster(documents("good 2"))) == ["runs"]
    assert NOTED not in cluster.api.objects


def test_one_killed_while_it_waited_still_changes_something(cluster: Cluster) -> None:
    cluster(documents())
    cluster.api.objects[NOTED] = document("Secret", "colocation-part-before", data={})
    cluster.api.objects[NOTED]["metadata"]["labels"] = cluster.api.objects[CONFIG]["metadata"]["labels"]
    assert names(cluster(documents(), check=True)) == ["colocation-part-before"]
    assert names(cluster(documents())) == ["colocation-part-before"]


def kill_at(cluster: Cluster, path: str) -> None:
    """The run dies when it writes there; the one after it does not."""
    apply = cluster.api.apply

    def killed(at: str, body: Any, manager: str, *, dry_run: bool = False) -> Any:
        if at == path and not dry_run:
            cluster.api.apply = apply  # type: ignore[method-assign]
            raise KeyboardInterrupt
        return apply(at, body, manager, dry_run=dry_run)

    cluster.api.apply = killed  # type: ignore[method-assign]


def trial(config: str) -> list[dict[str, Any]]:
    return [document("Secret", "config-trial"), document("Pod", "trial", spec={"config": config})]


def test_what_is_new_is_tried_first(cluster: Cluster) -> None:
    cluster(documents(), trial=trial("good"))
    assert cluster.seen
    assert not [path for path in cluster.api.objects if "trial" in path]
    cluster.seen.clear()
    cluster(documents(), trial=trial("good"))
    cluster(documents("good 2"), trial=trial("good 2"), check=True)
    assert cluster.seen == []  # nothing new, or nothing but foretold


def test_a_bad_trial_changes_nothing(cluster: Cluster) -> None:
    cluster(documents())
    cluster.api.logs["main"] = "unknown field: profils"
    written = len(cluster.api.written)
    with pytest.raises(ObjectProblem) as told:
        cluster(documents("bad"), trial=trial("bad"))
    assert "The trial failed, so nothing was changed. Pod n/trial failed" in str(told.value)
    assert "unknown field: profils" in str(told.value)
    assert all("trial" in line for line in cluster.api.written[written:])
    assert not [path for path in cluster.api.objects if "trial" in path]


def test_without_a_limit_nothing_is_tried_or_waited_for(cluster: Cluster) -> None:
    cluster(documents("wrong"), trial=trial("bad"), wait=False)
    assert cluster.seen == []
    assert cluster.config() == "wrong"


def test_one_that_is_not_ready_is_told_though_nothing_changes(cluster: Cluster) -> None:
    cluster(documents("wrong"), wait=False)
    with pytest.raises(ObjectProblem, match="Nothing was to be changed, but Deployment n/runs is not ready after 30 s"):
        cluster(documents("wrong"))


def test_all_of_it_goes_and_its_leftovers_last(cluster: Cluster) -> None:
    cluster([*documents(), document("ConfigMap", "code")])
    cluster.api.objects[LEASE] = document("Lease", "leads", "coordination.k8s.io/v1")
    cluster.api.objects["/api/v1/namespaces/n/secrets/other"] = document("Secret", "other")
    more = {"state": "absent", "leftovers": [document("Lease", "leads", "coordination.k8s.io/v1")]}
    told = cluster([], check=True, **more)
    done = cluster([], **more)
    assert names(done) == names(told) == ["runs", "reads", "code", "config", "leads"]
    assert list(cluster.api.objects) == ["/api/v1/namespaces/n/secrets/other"]
    assert cluster([], **more) == []


@pytest.mark.parametrize("state", ["present", "absent"])
def test_what_is_not_ours_is_left(cluster: Cluster, state: str) -> None:
    cluster.api.objects[CONFIG] = document("Secret", "config", data={"key": "theirs"})
    with pytest.raises(ObjectProblem, match="Secret n/config is there (already )?and not ours"):
        cluster(documents(), state)
    assert cluster.api.written == []
    assert cluster.api.objects[CONFIG]["data"] == {"key": "theirs"}


def test_unless_it_is_adopted(cluster: Cluster) -> None:
    cluster.api.objects[CONFIG] = document("Secret", "config", data={"key": "theirs"})
    cluster(documents(), adopt=True)
    assert cluster.config() == "good"


def test_a_kind_that_the_cluster_has_not(cluster: Cluster) -> None:
    with pytest.raises(ObjectProblem, match="this cluster has no PrometheusRule of monitoring.coreos.com/v1"):
        cluster([document("PrometheusRule", "x", "monitoring.coreos.com/v1")])
    with pytest.raises(ObjectProblem, match="an object needs apiVersion, kind and metadata.name"):
        cluster([{"kind": "Secret"}])


def test_a_refusal_says_of_what(cluster: Cluster) -> None:
    def refuse(path: str, body: Any, manager: str, *, dry_run: bool = False) -> Any:
        raise ApiError("PATCH: 422 spec.selector: field is immutable", 422, "Invalid", "spec.selector: immutable")

    cluster.api.apply = refuse  # type: ignore[method-assign]
    with pytest.raises(ObjectProblem, match="the API server refuses ClusterRole reads: spec.selector: immutable"):
        cluster(documents())


def test_the_note_holds_what_stood(cluster: Cluster) -> None:
    cluster(documents())
    kill_at(cluster, RUNS)
    with pytest.raises(KeyboardInterrupt):
        cluster(documents("wrong"))
    note = json.loads(base64.b64decode(cluster.api.objects[NOTED]["data"][NOTE]))
    stood = {name[3]: one for name, one in note}
    assert base64.b64decode(stood["config"]["data"]["key"]) == b"good"
    assert "uid" not in stood["runs"]["metadata"] and "status" not in stood["runs"]
