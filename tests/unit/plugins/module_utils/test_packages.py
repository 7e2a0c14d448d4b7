# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Installing what is missing: with which words, and what is tried when it does not go at once."""

from __future__ import annotations

import pytest

from ansible_collections.colocation.kubernetes.plugins.module_utils._packages import PackageError, Packages


class Apt:
    """A double of apt-get: answers of `install` in order, all else succeeds."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.said: list[str] = []

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        words = " ".join(command)
        self.said.append(words)
        if " install " in words:
            code, err = self.answers.pop(0)
            return code, "", err
        return 0, "", ""


def test_a_version_is_asked_for() -> None:
    apt = Apt((0, ""))
    Packages(apt).install("containerd", "1.7.24")
    assert apt.said[-1].endswith("install --no-install-recommends containerd=1.7.24")
    assert "DEBIAN_FRONTEND=noninteractive" in apt.said[-1]


def test_an_interrupted_installation_is_finished_first() -> None:
    apt = Apt((100, "you must manually run 'dpkg --configure -a'"), (0, ""))
    Packages(apt).install("containerd")
    assert any(words.endswith("dpkg --force-confdef --force-confold --configure -a") for words in apt.said)


def test_nobody_is_asked_about_a_changed_configuration() -> None:
    """dpkg would ask whose to take, find nobody there, and leave the package half-configured."""
    apt = Apt((0, ""))
    Packages(apt).install("containerd")
    assert "-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install" in apt.said[-1]


@pytest.mark.parametrize(
    ("status", "unfinished"),
    [("half-configured", True), ("unpacked", True), ("installed", False), ("config-files", False), ("", False)],
)
def test_an_installation_that_did_not_get_to_its_end(status: str, unfinished: bool) -> None:
    assert Packages(lambda _command: (0, status, "")).is_unfinished("containerd") == unfinished


def test_old_lists_are_read_anew_and_then_the_error_is_told() -> None:
    apt = Apt((100, "no candidate"), (0, ""))
    Packages(apt).install("containerd")
    assert any(words.endswith(" update") for words in apt.said)
    with pytest.raises(PackageError, match="could not install containerd: no candidate"):
        Packages(Apt((100, "no candidate"), (100, "no candidate"))).install("containerd")


def test_dnf_where_there_is_no_apt() -> None:
    said: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        said.append(command)
        return (0, "", "") if command[0] == "dnf" else (127, "", "")

    Packages(run).install("containerd", "2.1")
    assert said[-1] == ["dnf", "-y", "install", "containerd-2.1"]
    with pytest.raises(PackageError, match="no package manager"):
        Packages(lambda _command: (127, "", "")).install("containerd")
