"""Cells of csv: no text of a store is a formula, and none loses a backslash; export and reports agree."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from rmqtool.columns import TextBodies
from rmqtool.columns.lines import LineWriter, csv_form
from rmqtool.report.output import csv_cell
from rmqtool.report.terminal import is_cell_text

if TYPE_CHECKING:
    from rmqtool.columns.files import Output

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
    column = pa.array(texts)
    bodies = pa.array([text.encode() for text in texts], pa.binary())
    table = pa.table({"topic": column, "tags": column.dictionary_encode(), "body": bodies})
    written = io.BytesIO()
    LineWriter(cast("Output", written), csv_form(table.schema, TextBodies.TEXT)).write(table)
    rows = list(csv.DictReader(io.StringIO(written.getvalue().decode(), newline="")))
    expected = CELLS[: len(texts)] if texts == TEXTS[: len(texts)] else [csv_cell(text) for text in texts]
    assert [row["topic"] for row in rows] == [row["tags"] for row in rows] == expected
    assert [row["bodyEncoding"] == "utf-8" for row in rows] == [is_cell_text(text) for text in texts]
