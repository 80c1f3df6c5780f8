"""One place knows how records are framed: others do not compute where one ends, nor what ends a file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "rmqtool"

SUMS = {
    "formats/framing.py": "the framing itself",
    "kernels/rows.py": "ends of rows, for Python",
    "kernels/walk.py": "end of a row, for kernels",
    "kernels/loose.py": "records in raw bytes, which have a position and no framing",
    "scan/loose.py": "how much of an image to read after a record",
}
"""Modules with one sum of an offset and ``total_size``, and its subject."""

NAMES = {
    "formats/message.py": "its layout",
    "formats/framing.py": "the framing of plain files",
    "scan/classify.py": "what users read of damage",
    "reput/damage.py": "what users read of a rebuild",
    "report/row_text.py": "what users read of rows",
    "report/topics_text.py": "what users read of bytes",
    "report/outcome_text.py": "what users read of a salvage",
    "report/charts.py": "what users read in a page",
    "commands/carve.py": "what users read of a carved log",
    "commands/topics.py": "what users read in a schema",
    "commands/diff/log.py": "what users read of a difference",
}
"""Modules that name BLANK, the mark that ends a plain file, and why."""


def modules() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def sums(text: str) -> list[str]:
    """Return the sums of a module in which a record's size is a part, as ``a + total_size``."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and "total_size" in ast.unparse(node)
    ]


def test_a_sum_is_met() -> None:
    assert sums("end = row['log_offset'] + int(row['total_size'])") == [
        "row['log_offset'] + int(row['total_size'])"
    ]
    assert sums("end = frame_stops(rows) + blanks") == []


def test_one_place_adds_the_size_of_a_record_to_an_offset() -> None:
    assert {name: len(met) for name, text in modules().items() if (met := sums(text))} == dict.fromkeys(
        SUMS, 1
    )


def test_few_modules_name_the_mark_that_ends_a_file() -> None:
    assert {name for name, text in modules().items() if re.search(r"\bBLANK", text)} == {*NAMES}


def test_nothing_but_the_framing_compares_with_its_magic() -> None:
    """The one other module prints its name beside the number."""
    named = {name for name, text in modules().items() if "BLANK_MAGIC" in text}
    assert named == {"formats/message.py", "formats/framing.py", "report/row_text.py"}
