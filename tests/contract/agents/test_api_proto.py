# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Our table of the kubelet's device plugin API against the .proto file of each Kubernetes that we test with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import cache_dir
from colocation.device_plugin.protocol import PLUGIN, REGISTER, TABLE

FILE = "pkg/apis/deviceplugin/v1beta1/api.proto"


def proto(minor: str) -> str:
    """The file that comes with the Go module which the kubelet is built from."""
    found = Path(cache_dir(), "go", "mod", "k8s.io", f"kubelet@v0.{kubernetes(minor).version.partition('.')[2]}", FILE)
    if not found.exists():
        pytest.skip(f"Kubernetes {minor} was not built here yet")
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", found.read_text(), flags=re.DOTALL)


def messages(text: str) -> dict[str, dict[str, tuple[int, str]]]:
    """Every message of a .proto file in the form of our table."""
    bodies = dict(re.findall(r"message (\w+) \{([^}]*)\}", text))
    field = re.compile(r"((?:repeated )?\w+|map<\w+, *\w+>)\s+(\w+)\s*=\s*(\d+)\s*;")
    return {
        name: {field_name: (int(number), kind) for kind, field_name, number in field.findall(body)}
        for name, body in bodies.items()
    }


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_field_of_the_table_is_the_apis(minor: str) -> None:
    theirs = messages(proto(minor))
    for name, fields in TABLE.items():
        assert fields.items() <= theirs[name].items(), name


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_services_are_the_apis(minor: str) -> None:
    text = proto(minor)
    package = re.findall(r"^package (\w+);", text, re.MULTILINE)
    assert [f"{package[0]}.DevicePlugin", f"/{package[0]}.Registration/Register"] == [PLUGIN, REGISTER]
    assert re.search(r"service Registration \{\s*rpc Register\(RegisterRequest\) returns \(Empty\)", text)
    for call in ("GetDevicePluginOptions(Empty)", "ListAndWatch(Empty)", "Allocate(AllocateRequest)"):
        assert f"rpc {call} returns" in text
