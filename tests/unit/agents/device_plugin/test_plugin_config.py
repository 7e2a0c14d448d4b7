# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the device plugin's configuration may say."""

from __future__ import annotations

import pytest

from colocation.common.config import ConfigError, load
from colocation.device_plugin.config import Config, StatusPage, resource_name


def test_the_seeds_ten_devices() -> None:
    config = load(Config, "mock: {mock.com/gpu: 10}", "dp.yaml")
    assert dict(config.mock) == {"mock.com/gpu": 10}
    assert config.kubelet_dir == "/var/lib/kubelet/device-plugins"
    assert config.status == StatusPage("127.0.0.1", 9461)


def test_the_seeds_gpus() -> None:
    (gpu,) = load(Config, "gpu: {doslab.io/gpu-memory: {}}", "dp.yaml").gpu.values()
    assert (gpu.unit_mib, gpu.count_resource, gpu.core_resource) == (1, "doslab.io/gpu-count", "doslab.io/gpu-core")
    assert not gpu.allow_multi_gpu and not gpu.double_file and not gpu.topology_hints


@pytest.mark.parametrize("name", ["mock.com/gpu", "mock/gpu", "test.com/colocation-memory", "a/B_c.d"])
def test_names_of_resources(name: str) -> None:
    assert resource_name(name) is None


@pytest.mark.parametrize(
    "name",
    ["gpu", "/gpu", "mock.com/", "a/b/c", "Mock.com/gpu", "mock..com/gpu", "mock.com/-gpu", "mock.com/" + "g" * 64]
    + ["d" * 254 + "/gpu", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "requests.mock.com/gpu", "mock.com/gpu\n"],
)
def test_what_the_kubelet_would_not_take(name: str) -> None:
    assert resource_name(name) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mock: {gpu: 1}", 'mock.gpu: "gpu" is no name of a resource, such as "mock.com/gpu"'),
        ("mock: {mock/gpu: -1}", 'mock."mock/gpu": must be between 0 and 1000000, not -1'),
        ("kubelet_dir: k", 'kubelet_dir: "k" does not begin with /'),
        (f"kubelet_dir: /{'k' * 42}", "kubelet_dir: is longer than 42 characters; paths of sockets can't be so long"),
        ("status: {address: here}", 'status.address: "here" is no IP address'),
        ("gpu: {a/b: {}, a/c: {}}", "gpu: a node's GPUs can be offered as one resource only"),
        ("{mock: {a/b: 1}, gpu: {a/b: {}}}", 'gpu: "a/b" is a resource of another source already'),
        ("gpu: {a/b: {core_resource: a/b}}", 'gpu: "a/b" is a resource that is offered already'),
        ("gpu: {a/b: {count_resource: gpus}}", 'gpu: "gpus" is no name of a resource, such as "mock.com/gpu"'),
        (
            "gpu: {a/b: {cdi_kind: gpu}}",
            'gpu."a/b".cdi_kind: "gpu" is no kind of CDI devices, such as "nvidia.com/gpu"',
        ),
        ("stream_grace: 3", 'stream_grace: unknown key; did you mean "stream_grace_seconds"?'),
    ],
)
def test_a_bad_value_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, text, "dp.yaml")
    assert str(caught.value) == f"dp.yaml:1: {said}"
