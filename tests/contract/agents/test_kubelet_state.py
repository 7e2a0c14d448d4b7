# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Who holds what, read over real gRPC and from a real file, at moments that the test chooses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import cache_dir
from ansible_collections.colocation.kubernetes.tests.contract.agents.pod_resources_double import (
    RESOURCE,
    PodResourcesDouble,
    uid,
)
from ansible_collections.colocation.kubernetes.tests.contract.agents.test_api_proto import messages
from colocation.device_plugin.holders import Ledger
from colocation.device_plugin.kubelet_state import LIST, QUIET_SECONDS, SETTLE_SECONDS, TABLE, KubeletState, Places


class Site:
    def __init__(self, place: Path) -> None:
        self.pods = PodResourcesDouble(place / "pods.sock", place / "checkpoint")
        self.ledger = Ledger()
        self.state = KubeletState(Places(str(self.pods.socket), str(self.pods.checkpoint)), self.ledger)
        self.living: set[str] = set()

    def look(self, now: float, kubelet: str = "one") -> set[str]:
        self.state.refresh([RESOURCE], self.living.__contains__, kubelet, now)
        return set(self.ledger.ids(RESOURCE))

    def holders(self) -> dict[int, str]:
        """The names of pods whose UID is known, by number."""
        return {int(held.uid[:8], 16): held.pod for held in self.ledger.holders(RESOURCE) if held.uid}


@pytest.fixture
def site(place: Path) -> Iterator[Site]:
    made = Site(place)
    made.pods.start()
    yield made
    made.state.close()
    made.pods.stop()


def test_names_and_uids_are_joined(site: Site) -> None:
    site.pods.give(1, "CM-0-0", "CM-0-1")
    site.pods.give(2, "x", resource="other.com/thing")
    assert site.look(0) == {"CM-0-0", "CM-0-1"}
    (holder,) = site.ledger.holders(RESOURCE)
    assert (holder.namespace, holder.pod, holder.uid, holder.container) == ("batch", "job-1", uid(1), "main")


def test_the_list_is_not_asked_for_right_after_a_grant(site: Site) -> None:
    site.look(0)
    asked = site.pods.asked
    site.ledger.grant(RESOURCE, ["CM-0-0"], 10.0)
    assert site.look(10 + QUIET_SECONDS / 2) == {"CM-0-0"}
    assert site.pods.asked == asked
    site.look(10.1 + QUIET_SECONDS)
    assert site.pods.asked == asked + 1


def test_while_grants_do_not_stop_holders_are_known_from_what_is_written_down(site: Site) -> None:
    """A pod each second: the kubelet gives it a block, writes that down, and makes its control group."""
    site.look(0)
    site.look(SETTLE_SECONDS)
    for number in range(1, 6):
        now = SETTLE_SECONDS + number
        site.ledger.grant(RESOURCE, [f"CM-0-{number}"], now)
        asked = site.pods.asked
        site.look(now + 0.1)
        assert site.pods.asked == asked, "it is not written down yet"
        site.pods.give(number, f"CM-0-{number}")
        site.look(now + 0.2)
        assert site.pods.asked == asked, "it is, and the kubelet may go on with the pod's other containers"
        assert number not in site.holders()
        site.living.add(uid(number))
        site.look(now + 0.3)
        assert site.holders() == {one: f"job-{one}" for one in range(1, number + 1)}


def test_a_pod_that_has_not_begun_keeps_its_blocks_while_others_are_granted(site: Site) -> None:
    """Its network is not ready, so the kubelet has made no control group yet."""
    site.look(0)
    site.look(SETTLE_SECONDS)
    site.pods.give(1, "CM-0-1")
    assert site.look(SETTLE_SECONDS + 10) == {"CM-0-1"}
    site.ledger.grant(RESOURCE, ["CM-0-2"], SETTLE_SECONDS + 11)
    assert site.look(SETTLE_SECONDS + 11.1) == {"CM-0-1", "CM-0-2"}
    site.living.add(uid(1))
    site.look(SETTLE_SECONDS + 11.2)
    site.living.clear()  # it began and ended
    assert site.look(SETTLE_SECONDS + 11.3) == {"CM-0-2"}


def test_while_a_kubelet_begins_and_grants_the_list_waits_and_holders_are_known(site: Site) -> None:
    site.look(0)
    asked = site.pods.asked
    site.ledger.grant(RESOURCE, ["CM-0-0"], 10.0)
    site.pods.give(1, "CM-0-0")
    site.look(10.1)
    assert (site.holders(), site.pods.asked) == ({1: ""}, asked)
    site.look(10.1 + QUIET_SECONDS)
    assert (site.holders(), site.pods.asked) == ({1: "job-1"}, asked + 1)


def test_what_is_written_down_counts_while_a_kubelet_begins_and_then_while_the_pod_lives(site: Site) -> None:
    site.pods.give(1, "CM-0-0")
    site.pods.give(2, "CM-0-1")
    site.pods.short = True
    site.living = {uid(1)}
    assert site.look(0) == {"CM-0-0", "CM-0-1"}
    assert site.look(SETTLE_SECONDS - 1) == {"CM-0-0", "CM-0-1"}
    assert site.look(SETTLE_SECONDS) == {"CM-0-0"}
    assert site.look(SETTLE_SECONDS + 10, "another") == {"CM-0-0", "CM-0-1"}


def test_both_gone_leaves_what_was_known(site: Site) -> None:
    site.pods.give(1, "CM-0-0")
    assert site.look(0) == {"CM-0-0"}
    site.pods.stop()
    site.pods.checkpoint.write_text("half of")
    assert site.look(SETTLE_SECONDS + 1) == {"CM-0-0"}
    assert site.state.blind
    assert "can't be read" in site.state.told
    site.pods.write()
    site.living = {uid(1)}
    assert site.look(SETTLE_SECONDS + 2) == {"CM-0-0"}
    assert not site.state.blind


def test_a_checkpoint_is_read_when_it_was_replaced(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pods.give(1, "CM-0-0")
    site.look(0)
    opened = []
    real = open
    monkeypatch.setattr("builtins.open", lambda *words, **more: opened.append(words[0]) or real(*words, **more))
    site.look(10)
    assert opened == []
    site.pods.give(2, "CM-0-1")
    opened.clear()
    assert site.look(20) == {"CM-0-0", "CM-0-1"}
    assert opened == [str(site.pods.checkpoint)]


def test_an_answer_that_is_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pods.give(1, "CM-0-0")
    monkeypatch.setattr(site.state, "_call", lambda: b"\xff\xff")
    assert site.look(0) == {"CM-0-0"}
    assert "PodResources" in site.state.told


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_field_of_the_table_is_the_apis(minor: str) -> None:
    version = kubernetes(minor).version.partition(".")[2]
    file = Path(cache_dir(), "go", "mod", "k8s.io", f"kubelet@v0.{version}", "pkg/apis/podresources/v1/api.proto")
    if not file.exists():
        pytest.skip(f"Kubernetes {minor} was not built here yet")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
    theirs = messages(text)
    for name, fields in TABLE.items():
        assert fields.items() <= theirs[name].items(), name
    package = re.findall(r"^package (\w+);", text, re.MULTILINE)
    assert f"/{package[0]}.PodResourcesLister/List" == LIST
    assert "rpc List(ListPodResourcesRequest) returns (ListPodResourcesResponse)" in text
