"""Whatever bytes a store holds: every report can be parsed, fits, and tells a terminal nothing."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from rmqtool.findings import CATALOG, Finding
from rmqtool.report.ci_reports import junit, sarif
from rmqtool.report.output import Format, to_json
from rmqtool.report.text_report import TextReport
from rmqtool.report.verdict import verify_document, verify_lines, verify_text, write_verdict
from tests.report.test_sarif import check, check_run
from tests.report.verdicts import verdict
from tests.strategies import examples

if TYPE_CHECKING:
    from rmqtool.commands.verify import Verdict

_CONTROLS = "\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_HARMFUL = re.compile(f"[{_CONTROLS}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# Names of files come as bytes; topics may hold anything that Java decodes.
_NAMES = st.binary(min_size=1, max_size=40).map(lambda data: data.decode("utf-8", "surrogateescape"))
_SPOILERS = st.sampled_from(["[bold]", "<a>&'\"", "|", "\x1b]0;x\x07", "\\"])
_TEXTS = st.text(st.characters(), max_size=60) | _SPOILERS
_NUMBERS = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
_FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(list(CATALOG.values())),
    file=st.none() | _NAMES.filter(lambda name: "\0" not in name),
    position=_NUMBERS,
    length=_NUMBERS,
    topic=st.none() | _TEXTS,
    queue_id=_NUMBERS,
    queue_offset=_NUMBERS,
    physical_offset=_NUMBERS,
    expected=_NUMBERS | _TEXTS,
    observed=_NUMBERS | _TEXTS | st.booleans(),
    message=_TEXTS,
)
_VERDICTS = st.lists(_FINDINGS, max_size=6).map(lambda findings: verdict(*findings))


@examples(60)
@given(_VERDICTS)
def test_every_report_is_well_formed_and_harmless(one: Verdict) -> None:
    number = len(list(one.findings()))
    table, shown = io.StringIO(), io.StringIO()
    write_verdict(one, Format.CSV, table)
    verify_text(one, TextReport(shown, color=False))
    lines = "".join(f"{to_json(line)}\n" for line in verify_lines(one))
    written = [to_json(verify_document(one)), lines, table.getvalue(), shown.getvalue()]
    written += [junit([one]).decode(), sarif([one]).decode()]
    for text in written:
        assert not _HARMFUL.search(text)
    document, lines, csv_text, _, xml, log = written
    assert len(json.loads(document)["findings"]) == number
    assert len(lines.splitlines()) == number + 1
    assert len(list(csv.reader(io.StringIO(csv_text)))) == number + 1
    assert ET.fromstring(xml).tag == "testsuites"
    (run,) = json.loads(log)["runs"]
    check(json.loads(log), "log")
    check_run(run)
    assert len(run["results"]) == number
