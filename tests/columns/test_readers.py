"""Other programs read the files: DuckDB, Polars, pandas, Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import rmqtool
from rmqtool.columns import files, pieces
from tests.columns.test_files import PLAIN, expected
from tests.extra import library

if TYPE_CHECKING:
    from pathlib import Path

pa = library("pyarrow")

pytestmark = pytest.mark.full

_COLUMNS = ("topic", "queueId", "queueOffset", "physicalOffset", "tags", "uniqKey", "keys", "body")
_QUERY = "SELECT * FROM '{}/*/*.parquet' ORDER BY \"physicalOffset\""


@pytest.fixture
def wanted() -> list[dict[str, Any]]:
    return expected(PLAIN)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parquet files by day, and an Arrow file, both in many batches whose words become more."""
    monkeypatch.setattr(pieces, "COLUMN_SPLIT_BYTES", 512)
    monkeypatch.setattr(files, "GROUP_BYTES", 1000)
    store = rmqtool.open(PLAIN)
    rmqtool.export(store, tmp_path / "parquet", partition_by="day")
    rmqtool.export(store, tmp_path / "arrow", format="arrow")
    return tmp_path


def compared(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Compare the columns that every reader has in one form."""
    assert [{name: one[name] for name in _COLUMNS} for one in found] == [
        {name: one[name] for name in _COLUMNS} for one in wanted
    ]
    times = [one["storeTimestamp"] for one in found]
    assert times == [datetime.fromtimestamp(one["storeTimestamp"] / 1000, UTC) for one in wanted]


def test_pandas(out: Path, wanted: list[dict[str, Any]]) -> None:
    pd = library("pandas")
    frame = pd.read_parquet(out / "parquet").sort_values("physicalOffset")
    assert {*frame["day"]} == {"2026-11-21"}
    found = [{**one, "keys": [*one["keys"]]} for one in frame.to_dict("records")]
    compared([{**one, "storeTimestamp": one["storeTimestamp"].to_pydatetime()} for one in found], wanted)
    assert [dict(one["properties"]) for one in found] == [one["properties"] for one in wanted]


def test_duckdb(out: Path, wanted: list[dict[str, Any]]) -> None:
    duckdb = library("duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        answer = connection.execute(_QUERY.format(out / "parquet"))
        names = [column[0] for column in answer.description]
        found = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    compared(found, wanted)
    assert [dict(one["properties"]) for one in found] == [one["properties"] for one in wanted]
    assert {str(one["day"]) for one in found} == {"2026-11-21"}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_polars(form: str, out: Path, wanted: list[dict[str, Any]]) -> None:
    polars = library("polars")
    if form == "parquet":
        frame = polars.scan_parquet(f"{out}/parquet/**/*.parquet").collect()
    else:
        (path,) = (out / "arrow").glob("*.arrow")
        assert pa.ipc.open_file(path).num_record_batches > 10
        frame = polars.read_ipc(path)
    found = frame.sort("physicalOffset").to_dicts()
    compared(found, wanted)
    assert [one["properties"] for one in found] == [one["properties"] for one in wanted]


@pytest.mark.matrix
@pytest.mark.spark
def test_spark(tmp_path: Path, wanted: list[dict[str, Any]]) -> None:
    """The Spark engine writes the same bytes; and Spark reads them."""
    store = rmqtool.open(PLAIN)
    names = [file.name for file in rmqtool.export(store, tmp_path / "local").files]
    report = rmqtool.export(store, tmp_path / "spark", engine="spark", jobs=1)
    assert report.engine == "spark"
    assert [file.name for file in report.files] == names
    for name in names:
        assert (tmp_path / "spark" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
