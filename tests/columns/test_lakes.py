"""The manual's recipes make tables of what export writes, as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from tests.extra import library
from tests.house.readme import DOCS
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable

pq = library("pyarrow.parquet")

pytestmark = pytest.mark.full

STORE = fixture("plain-5.5.1")
LATER = 30_000
COLUMNS = ["topic", "queueId", "queueOffset", "physicalOffset", "body"]


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Run the recipe on the page that names a library, beside an export; return what it defined."""
    monkeypatch.chdir(tmp_path)
    rmqtool.export(rmqtool.open(STORE), "messages", to_offset=LATER)
    rmqtool.export(rmqtool.open(STORE), "later", from_offset=LATER)

    def run(name: str) -> dict[str, Any]:
        blocks = re.findall(r"```python\n(.*?)```", (DOCS / "export.md").read_text(), re.DOTALL)
        (text,) = (block for block in blocks if name in block)
        defined: dict[str, Any] = {}
        exec(compile(text, f"export.md: {name}", "exec"), defined)
        return defined

    return run


def exported(*folders: str) -> list[dict[str, Any]]:
    return [one for folder in folders for one in pq.read_table(folder, columns=COLUMNS).to_pylist()]


def test_delta(recipe: Callable[[str], dict[str, Any]]) -> None:
    deltalake = library("deltalake")
    recipe("deltalake")
    found = deltalake.DeltaTable("messages").to_pyarrow_table(columns=COLUMNS)
    wanted = exported("messages")
    assert found.sort_by("physicalOffset").to_pylist() == wanted
    deltalake.write_deltalake("messages", pq.read_table("later"), mode="append")
    found = deltalake.DeltaTable("messages").to_pyarrow_table(columns=COLUMNS)
    assert found.sort_by("physicalOffset").to_pylist() == [*wanted, *exported("later")]
    assert len(found) == len(list(rmqtool.open(STORE).messages()))


def test_iceberg(recipe: Callable[[str], dict[str, Any]]) -> None:
    library("pyiceberg")
    made = recipe("pyiceberg")
    table = made["table"]
    found = table.scan(selected_fields=tuple(COLUMNS)).to_arrow()
    assert found.sort_by("physicalOffset").select(COLUMNS).to_pylist() == exported("messages")
    table.add_files([str(path) for path in Path("later").resolve().glob("*.parquet")])
    found = table.scan(selected_fields=("physicalOffset",)).to_arrow()
    offsets = [one["physicalOffset"] for one in exported("messages", "later")]
    assert sorted(found["physicalOffset"].to_pylist()) == offsets
    made["catalog"].close()
