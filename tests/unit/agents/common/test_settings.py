# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The configuration file of a running agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from colocation.common.config import ConfigError
from colocation.common.settings import MOST, Settings, read


@dataclass(frozen=True)
class Number:
    number: int = 0


def test_a_good_file_replaces_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: 1")
    settings = Settings(Number, str(file))
    file.write_text("number: 2")
    assert settings.current == Number(1)
    assert settings.reload()
    assert (settings.current, settings.rejected) == (Number(2), None)


def test_a_bad_file_changes_nothing_until_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("number: 1")
    settings = Settings(Number, str(file))
    file.write_text("number: one")
    assert not settings.reload()
    assert settings.current == Number(1)
    assert 'a.yaml:1: number: must be a whole number, not "one"' in str(settings.rejected)
    file.write_text("number: 3")
    assert settings.reload()
    assert (settings.current, settings.rejected) == (Number(3), None)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff", "is not UTF-8"), (b"#" * (MOST + 1), "is larger than"), (None, "can't be read: No such file")],
)
def test_what_is_no_configuration_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read(Number, str(file))


@pytest.mark.parametrize("content", ["number: one", None])
def test_an_agent_that_must_run_starts_with_its_fallback(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "a.yaml"
    if content is not None:
        file.write_text(content)
    settings = Settings(Number, str(file), Number(7))
    assert settings.current == Number(7) and settings.rejected is not None
    file.write_text("number: 2")
    assert settings.reload() and settings.current == Number(2)
    with pytest.raises(ConfigError):
        Settings(Number, str(tmp_path / "missing"))
