# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What the page of the extender says: every key of its configuration."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from colocation.scheduler.config import Config, Oversell

PAGE = Path(__file__).parents[3] / "docs" / "scheduler-extender.md"


def keys(section: Any) -> Iterator[str]:
    for field in dataclasses.fields(section):
        yield field.name
        value = getattr(section, field.name)
        if dataclasses.is_dataclass(value):
            yield from keys(value)


def test_every_key_is_explained() -> None:
    config = Config()
    wanted = {*keys(config), *keys(next(iter(config.profiles.values()))), *keys(Oversell())}
    prose = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert wanted <= said, wanted - said
