# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Why a service ended, in one line of its journal.

The kubelet and containerd write levels at the start of each line (klog) or as a key (logrus); what they end with is the
last of the worst. A line may be a stack trace of a mebibyte, so it is cut.
"""

from __future__ import annotations

import re

LONGEST = 400
_KLOG = re.compile(r"[EF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ (?:[\w.-]+:\d+\] )?(.*)")
_KLOG_ANY = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ ")
_LOGRUS = re.compile(r"level=(?:error|fatal|panic)\b")
_LOGRUS_MESSAGE = re.compile(r'(?:msg|error)="((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r"(?i)^(?:error|fatal|panic|failed)\b|: (?:error|fatal|panic)\b|\bcommand failed\b")
_ENDED = re.compile(r"Main process exited|Failed with result|Failed to start|start-limit-hit")
_COMMAND_FAILED = re.compile(r'"command failed" err="(.*)"$')


def last_error(journal: str) -> str:
    """The line that tells most, shortened; empty where none tells anything."""
    lines = [line.strip() for line in journal.splitlines() if line.strip()]
    for choose in (_error, _plain_error, _end):
        said = next(filter(None, map(choose, reversed(lines))), "")
        if said:
            return said if len(said) <= LONGEST else said[: LONGEST - 2] + " …"
    return ""


def _error(line: str) -> str:
    klog = _KLOG.search(line)
    if klog:
        failed = _COMMAND_FAILED.search(klog[1])
        return (failed[1].replace('\\"', '"') if failed else klog[1]).strip()
    if _LOGRUS.search(line):
        said = [message.replace('\\"', '"') for message in _LOGRUS_MESSAGE.findall(line)]
        return ": ".join(said) or line
    return ""


def _plain_error(line: str) -> str:
    return line if _PLAIN.search(line) and not _KLOG_ANY.search(line) else ""


def _end(line: str) -> str:
    return line if _ENDED.search(line) else ""
