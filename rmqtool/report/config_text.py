"""Text report of a broker's properties file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.report.charts import shortened
from rmqtool.report.output import several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.commands.config import ConfigRemark
    from rmqtool.report.text_report import TextReport

_TITLES = {
    Severity.ERROR: "Wrong",
    Severity.WARNING: "Doubtful",
    Severity.INFO: "Also",
}

_VALUE = 60
"""Longest value that is shown, in characters."""


def config_text(facts: Mapping[str, object], remarks: Sequence[ConfigRemark], text: TextReport) -> None:
    """Write the verdict, and a table of the remarks of each severity."""
    number = sum(remark.severity is Severity.ERROR for remark in remarks)
    file, release = str(facts["file"]), facts["release"]
    verdict = f"A {release} broker reads {file} as it says"
    if any(remark.kind == "refused" for remark in remarks):
        verdict = f"No {release} broker starts with {file}"
    elif number:
        verdict = f"{several(number, 'setting')} wrong for a {release} broker: {file}"
    compared = [("compared with", str(facts["from"]))] if facts["from"] else []
    text.verdict(verdict, [("settings", str(facts["settings"])), *compared])
    for severity, title in _TITLES.items():
        rows = [
            (remark.name, shortened(remark.value or "", _VALUE), remark.message)
            for remark in remarks
            if remark.severity is severity
        ]
        text.table(title, ("setting", "in the file", "what a broker does"), rows)
