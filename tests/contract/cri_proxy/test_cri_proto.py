# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Our table of the CRI against the .proto file of each Kubernetes that we test with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.binaries import (
    KUBERNETES_MINORS,
    kubernetes,
)
from ansible_collections.colocation.kubernetes.tests.cluster.colocation_cluster.cache import cache_dir
from colocation.cri_proxy import intercept
from colocation.cri_proxy.protocol import PACKAGE, TABLE

FILE = "pkg/apis/runtime/v1/api.proto"
AS_BYTES = {"KeyValue": {"value"}}  # older versions call it a string, which is the same on the wire


def proto(minor: str) -> str:
    """The file that comes with the Go module which the kubelet is built from."""
    version = f"v0.{kubernetes(minor).version.partition('.')[2]}"
    found = Path(cache_dir(), "go", "mod", "k8s.io", f"cri-api@{version}", FILE)
    if not found.exists():
        pytest.skip(f"Kubernetes {minor} was not built here yet")
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", found.read_text(), flags=re.DOTALL)


def messages(text: str) -> dict[str, dict[str, tuple[int, str]]]:
    """Every message of a .proto file in the form of our table, with numbers for enumerations."""
    enums = set(re.findall(r"^enum (\w+)", text, re.MULTILINE))
    bodies = dict(re.findall(r"^message (\w+) \{((?=\})|.*?^(?=\}))", text, re.MULTILINE | re.DOTALL))
    field = re.compile(r"((?:repeated )?\w+|map<\w+, *\w+>)\s+(\w+)\s*=\s*(\d+)\s*[;\[]")
    return {
        name: {
            field_name: (int(number), "int32" if kind in enums else kind.replace(",string", ", string"))
            for kind, field_name, number in field.findall(body)
        }
        for name, body in bodies.items()
    }


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_every_field_of_the_table_is_the_apis(minor: str) -> None:
    theirs = messages(proto(minor))
    for name, fields in TABLE.items():
        for field, (number, kind) in fields.items():
            found, found_kind = theirs[name][field]
            same = kind == found_kind or (field in AS_BYTES.get(name, ()) and {kind, found_kind} == {"bytes", "string"})
            assert found == number and same, f"{name}.{field}"


@pytest.mark.parametrize("minor", KUBERNETES_MINORS)
def test_the_calls_of_interest_are_the_apis(minor: str) -> None:
    text = proto(minor)
    assert f"package {PACKAGE};" in text
    service = re.search(r"^service RuntimeService \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert service is not None
    for path in (*intercept._HELD, *intercept._SEEN):
        name = path.decode().rpartition("/")[2]
        assert re.search(rf"rpc {name}\({name}Request\) returns \({name}Response\)", service[1]), name
