"""Messages, units, items and answers are Arrow streams: pyarrow takes them as they are, and so do others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import rmqtool
from rmqtool.columns import COLUMNS
from rmqtool.columns.arrow import rows_table
from rmqtool.rows import Item, Preblank, Unit
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from rmqtool.rows import Row


@pytest.fixture
def store() -> rmqtool.Store:
    return rmqtool.open(fixture("plain-5.3.3"), broker_conf=fixture("plain-5.3.3") / "broker.conf")


def test_messages(store: rmqtool.Store) -> None:
    table = pa.table(store.messages(topic="Orders"))
    assert table.column_names == list(COLUMNS)
    assert table == store.messages(topic="Orders").to_arrow()
    drawn = store.messages(topic="Orders")
    next(drawn)
    assert pa.table(drawn)["physicalOffset"] == table["physicalOffset"].slice(1)


def test_answers(store: rmqtool.Store) -> None:
    key = "order-3"
    expected = [row.physical_offset for row in store.query(key=key)]
    table = pa.table(store.query(key=key))
    assert table["physicalOffset"].to_pylist() == expected
    assert expected


def test_units_and_items(store: rmqtool.Store) -> None:
    def numbers(found: list[Row]) -> list[tuple[object, ...]]:
        return [(row.file, row.physical_offset) for row in found]  # type: ignore[union-attr]

    units = store.queue("Orders", 0).units
    for again in (units, store.index().items):
        table = pa.table(again())
        assert [*zip(table["file"].to_pylist(), table["physicalOffset"].to_pylist(), strict=True)] == numbers(
            [*again()]
        )
    empty = pa.table(units(limit=1).__class__(iter(()), None, None, type(next(units()))))  # type: ignore[arg-type]
    assert (empty.num_rows, empty.column_names[:2]) == (0, ["file", "position"])


def test_units_below_the_first_offset_of_a_queue() -> None:
    units = [Preblank("f", 0, "T", 0, 0, 0, 2**31 - 1, 0), Unit("f", 20, "T", 0, 1, 0, 200, 0)]
    assert rows_table(units, Unit)["size"].to_pylist() == [2**31 - 1, 200]
    with pytest.raises(rmqtool.UsageError, match="no columns in common"):
        rows_table([*units, Item("f", 1, 0, 0, 0, 0, 0)], Unit)


def test_others_take_them(store: rmqtool.Store) -> None:
    polars = pytest.importorskip("polars")
    places = [row.physical_offset for row in store.messages()]
    assert polars.DataFrame(store.messages())["physicalOffset"].to_list() == places


def test_readers_may_ask_twice(store: rmqtool.Store) -> None:
    """DuckDB does: once for the columns, once for the rows."""
    for found in (store.messages(), store.query(key="order-3"), store.queue("Orders", 0).units()):
        assert pa.table(found) == pa.table(found)
        assert pa.table(found).num_rows
