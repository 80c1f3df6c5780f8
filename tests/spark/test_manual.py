"""The page about the tables has every option."""

from __future__ import annotations

import re

from rmqtool.spark.options import OPTIONS
from tests.house.readme import DOCS


def test_the_page_has_all_options() -> None:
    _, text = (DOCS / "spark-tables.md").read_text().split("\n## Options\n")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text.split("\n## ")[0], re.MULTILINE)
    assert dict(rows) == OPTIONS
