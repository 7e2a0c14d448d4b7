# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible import constants


def unfolded(lines: Iterable[str]) -> list[str] | str:
    shown_as = constants.config.get_config_value("result_format", plugin_type="callback", plugin_name="default")
    return "\n".join(lines) if shown_as == "yaml" else list(lines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"unfolded": unfolded}
