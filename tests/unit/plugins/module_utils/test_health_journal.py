# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The one line of a journal that says why a service ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.colocation.kubernetes.plugins.module_utils._health_journal import LONGEST, last_error

KLOG = """\
I1119 01:22:33.123456    1234 server.go:525] "Kubelet version" kubeletVersion="v1.36.3"
E1119 01:22:33.223456    1234 run.go:72] "command failed" err="failed to load config file, path: /x, error: \\"y\\""
kubelet.service: Main process exited, code=exited, status=1/FAILURE
kubelet.service: Failed with result 'exit-code'.
"""
LOGRUS = """\
time="2026-11-19T01:22:33Z" level=info msg="starting containerd"
containerd: failed to load TOML: /etc/containerd/config.toml: (3, 1): unexpected token
containerd.service: Main process exited, code=exited, status=1/FAILURE
"""


@pytest.mark.parametrize(
    ("journal", "line"),
    [
        ("", ""),
        ("I1119 01:22:33.123456    1234 server.go:525] all is well\n", ""),
        (KLOG, 'failed to load config file, path: /x, error: "y"'),
        (KLOG + 'E1119 01:22:34.000001    1240 kubelet.go:10] "Unable" err="later"', '"Unable" err="later"'),
        ("F1119 01:22:33.123456       1 main.go:1] fatal things", "fatal things"),
        (LOGRUS, "containerd.service: Main process exited, code=exited, status=1/FAILURE"),
        ('time="x" level=fatal msg="no \\"disk\\"" error="it is full"', 'no "disk": it is full'),
        ("Error: unknown flag: --pod-infra-container-image\n", "Error: unknown flag: --pod-infra-container-image"),
        ("kubelet.service: Start request repeated too quickly.\nkubelet.service: Failed with result 'start-limit-hit'.",
         "kubelet.service: Failed with result 'start-limit-hit'."),
    ],
)  # fmt: skip
def test_the_line_that_tells_most(journal: str, line: str) -> None:
    assert last_error(journal) == line


def test_a_line_without_end_is_cut() -> None:
    said = last_error("E1119 01:22:33.123456    1234 run.go:72] " + "x" * 100_000)
    assert len(said) == LONGEST and said.endswith(" …")


@given(st.lists(st.sampled_from([*KLOG.splitlines(), *LOGRUS.splitlines()]) | st.text(max_size=80)).map("\n".join))
def test_any_journal_gives_one_short_line(journal: str) -> None:
    said = last_error(journal)
    assert len(said) <= LONGEST and "\n" not in said
