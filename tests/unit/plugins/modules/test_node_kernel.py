# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.colocation.kubernetes.plugins.modules import node_kernel
from ansible_collections.colocation.kubernetes.tests.unit.plugins.modules.module_call import call


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(node_kernel, "ROOT", str(tmp_path))
    for name, text in {"proc/modules": "overlay 1 0 - Live 0x0\n", "proc/sys/net/ipv4/ip_forward": "0\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _run(root: Path, check_mode: bool = False, **params: Any) -> dict[str, Any]:
    return call(node_kernel.main, check_mode, state_dir=str(root / "state"), **params)


def test_check_mode_and_the_run_say_the_same(root: Path) -> None:
    wish: dict[str, Any] = {
        "modules": ["overlay"],
        "sysctls": {"net.ipv4.ip_forward": True},
        "name": "k8s",
        "priority": 7,
    }
    told = _run(root, True, **wish)
    assert not (root / "etc").exists()
    done = _run(root, **wish)
    assert told == done
    assert done["sysctls_changed"] == {"net.ipv4.ip_forward": {"before": "0", "after": "1"}}
    assert done["files_changed"] == [str(root / "etc/modules-load.d/k8s.conf"), str(root / "etc/sysctl.d/07-k8s.conf")]
    assert not _run(root, **wish)["changed"]


def test_an_override_is_a_warning(root: Path) -> None:
    (root / "etc").mkdir()
    (root / "etc/sysctl.conf").write_text("net.ipv4.ip_forward = 0\n")
    answer = _run(root, sysctls={"net.ipv4.ip_forward": 1})
    assert str(root / "etc/sysctl.conf") in answer["warnings"][0]
    assert len(answer["overridden"]) == 1


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "../evil"}, "can't be part of a file name"),
        ({"priority": 100}, "not between 0 and 99"),
        ({"sysctls": {"a b": 1}}, "not the name of one setting"),
        ({"sysctls": {"net/../x": 1}}, "not the name of one setting"),
        ({"sysctls": {"net.ipv4.conf.*.x": 1}}, "not the name of one setting"),
        ({"sysctls": {"a.b": None}}, "no usable value"),
        ({"sysctls": {"a.b": "1\nc.d = 2"}}, "no usable value"),
        ({"modules": ["--remove"]}, "not the name of a kernel module"),
    ],
)
def test_bad_parameters_are_named(root: Path, params: dict[str, Any], words: str) -> None:
    answer = _run(root, **params)
    assert answer["failed"]
    assert words in answer["msg"]
    assert not (root / "etc").exists()


def test_an_unknown_sysctl_fails_outside_of_check_mode_only(root: Path) -> None:
    wish: dict[str, Any] = {"sysctls": {"net.bridge.bridge-nf-call-iptables": 1}}
    assert _run(root, True, **wish)["changed"]
    assert "br_netfilter" in _run(root, **wish)["msg"]
