"""The table of codes that the manual holds."""

from __future__ import annotations

import re

from rmqtool.findings import CATALOG
from tests.house.manual_tables import catalogue_table


def test_table_has_a_row_of_four_cells_for_every_code_in_order() -> None:
    head, rule, *rows = catalogue_table().splitlines()
    assert head == "| Code | Severity | Meaning | Remedy |"
    assert rule == "| --- | --- | --- | --- |"
    cells = [re.split(r" (?<!\\)\| ", row.removeprefix("| ").removesuffix(" |")) for row in rows]
    assert [one[0].strip("`") for one in cells] == list(CATALOG)
    assert {len(one) for one in cells} == {4}
    assert [one[1] for one in cells] == [entry.severity.value for entry in CATALOG.values()]


def test_cells_hold_no_markup_by_accident() -> None:
    assert not re.search(r"(?<!\\)[<*_]", catalogue_table())
