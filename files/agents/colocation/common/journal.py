# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The log: one line an event on standard error, for the journal with its level in front (`<6>`).

<6>device_plugin: registered with the kubelet resource=mock.com/gpu socket=mock.com_gpu.1f.sock
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

_LEVELS = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7))
_FIELDS = "colocation_fields"


class Log:
    """Events of one part of an agent; keywords become `key=value`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._say(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error with the exception being handled."""
        self._say(logging.ERROR, event, fields, exc_info=True)

    def _say(self, level: int, event: str, fields: Mapping[str, object], exc_info: bool = False) -> None:
        self._logger.log(level, "%s", event, exc_info=exc_info, extra={_FIELDS: dict(fields)})


class LineFormatter(logging.Formatter):
    """One printable line a record."""

    def __init__(self, level_prefix: bool) -> None:
        super().__init__()
        self.level_prefix = level_prefix

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{syslog_level(record.levelno)}>" if self.level_prefix else f"{record.levelname.lower()} "
        fields: dict[str, object] = dict(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[1] is not None:
            kind, error, trace = record.exc_info
            fields |= {"error": f"{kind.__name__ if kind else ''}: {error}", "trace": _where(trace)}
        said = "".join(f" {name}={field_value(value)}" for name, value in fields.items())
        return f"{prefix}{record.name}: {_one_line(record.getMessage())}{said}"


def syslog_level(level: int) -> int:
    """The level as syslog counts."""
    return next((number for least, number in _LEVELS if level >= least), 7)


def field_value(value: object) -> str:
    """A value behind `key=`: in quotes where a reader could not tell its end."""
    text = _one_line(str(value))
    if text and not any(character in ' "=\\' for character in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _where(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-6:]
    return " < ".join(f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in reversed(frames))


def goes_to_the_journal(environ: Mapping[str, str], file_number: int) -> bool:
    """Whether systemd connected that file to the journal."""
    try:
        found = os.fstat(file_number)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def set_up(level: str = "info", stream: Any = None) -> None:
    """Send every log, those of libraries too, to standard error."""
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(LineFormatter(goes_to_the_journal(os.environ, 2)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log no less than this from now on."""
    logging.getLogger().setLevel(level.upper())
