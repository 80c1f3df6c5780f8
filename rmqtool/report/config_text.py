"""Text report of a broker's properties file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.report.output import several
from rmqtool.report.terminal import escape_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.commands.config import ConfigRemark
    from rmqtool.report.text_report import TextReport

_TITLES = {
    Severity.ERROR: "Wrong",
    Severity.WARNING: "Doubtful",
    Severity.INFO: "Also",
}


def config_text(facts: Mapping[str, object], remarks: Sequence[ConfigRemark], text: TextReport) -> None:
    """Write the verdict, and a table of the remarks of each severity."""
    number = sum(remark.severity is Severity.ERROR for remark in remarks)
    file, release = escape_text(str(facts["file"])), facts["release"]
    wrong = "as it says" if not number else f"but for {several(number, 'error')}"
    text.verdict(
        f"A broker of {release} reads {file} {wrong}",
        [("settings", str(facts["settings"])), ("compared with", str(facts["from"] or "no other release"))],
    )
    for severity, title in _TITLES.items():
        rows = [
            (escape_text(remark.name), escape_text(remark.value or ""), escape_text(remark.message))
            for remark in remarks
            if remark.severity is severity
        ]
        text.table(title, ("setting", "in the file", "what a broker does"), rows)
    text.finish()
