"""Cells of csv: no text of a store is a formula, and none loses a backslash; export and reports agree."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

import rmqtool
from rmqtool import rows
from rmqtool.columns import ColumnChoice
from rmqtool.columns.encoder import filled
from rmqtool.columns.lines import LineForm, LineMaker
from rmqtool.projection import BodyMode
from rmqtool.report.output import csv_cell
from rmqtool.report.terminal import is_cell_text
from tests.store.fixture_stores import fixture

TEXTS = ["=1+1", "+1", "-1", "@sum", "plain", "a=b", "a\\b", "\\x09", "\t", "\\", "", "\u2028=", "-\u202e\\"]
CELLS = [
    *("\\x3d1+1", "\\x2b1", "\\x2d1", "\\x40sum", "plain", "a=b", "a\\\\b", "\\\\x09", "\\x09", "\\\\", ""),
    *("\\u2028=", "\\x2d\\u202e\\\\"),
]


def test_cells_of_reports() -> None:
    assert [csv_cell(text) for text in TEXTS] == CELLS
    assert [csv_cell(value) for value in (-1, None, ["=1", "\\"], True)] == [
        -1,
        None,
        '["=1", "\\\\"]',
        "true",
    ]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4], ["plain", "a\\b"], ["plain"]])
def test_cells_of_exports(texts: list[str]) -> None:
    (plain, *_) = rmqtool.open(fixture("plain-5.3.3")).messages()
    messages = [replace(plain, topic=text, tags=text, body=text.encode()) for text in texts]
    form = LineForm(("topic", "tags", "body"), BodyMode.TEXT, is_csv=True)
    columns = [part for part in filled(messages, ColumnChoice(form.names)) if isinstance(part, rows.Columns)]
    lines = b"".join(bytes(piece) for part in columns for piece in LineMaker(form).lines(part))
    found = list(csv.DictReader(io.StringIO(form.head + lines.decode(), newline="")))
    expected = CELLS[: len(texts)] if texts == TEXTS[: len(texts)] else [csv_cell(text) for text in texts]
    assert [row["topic"] for row in found] == [row["tags"] for row in found] == expected
    assert [row["bodyEncoding"] == "utf-8" for row in found] == [is_cell_text(text) for text in texts]
