"""Damage of the log that a question met on its way: said, and counted for the exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import FindingLog
from rmqtool.rows import Damage

if TYPE_CHECKING:
    from rmqtool.progress import Progress
    from rmqtool.rows.messages import MessageRows
    from rmqtool.scan.classify import Defect


class MetDefects:
    """Takes note of defects.

    Args:
        rows: Tells where they lie.
        progress: Told of each.

    Attributes:
        findings: What was met.
    """

    def __init__(self, rows: MessageRows, progress: Progress) -> None:
        self._rows = rows
        self._progress = progress
        self.findings = FindingLog()

    def note(self, defect: Defect) -> None:
        """Take note of one."""
        row = self._rows.row(defect)
        if isinstance(row, Damage):
            self.findings.add(row.finding())
        self._progress.warn(f"{defect.code.code}: {defect.message}")
