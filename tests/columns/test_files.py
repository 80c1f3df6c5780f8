"""Files of columns hold the messages, whoever reads them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jsonschema
import pytest

import rmqtool
from rmqtool.columns import (
    COLUMNS,
    EARLIEST_MS,
    LATEST_MS,
    ColumnChoice,
    FileFormat,
    Partition,
    files,
    pieces,
)
from rmqtool.columns.arrow import schema_of
from rmqtool.commands.export import run as task
from rmqtool.errors import EnvironmentFailureError, RefusedError, UsageError
from rmqtool.progress import RecordingProgress
from rmqtool.projection import json_object
from rmqtool.report.outcome_text import export_text
from rmqtool.report.terminal import escape_controls
from rmqtool.report.text_report import TextReport
from tests.extra import library
from tests.house.readme import DOCS
from tests.house.schemas import schema
from tests.scan.log_builder import open_file, record
from tests.store.fixture_stores import STORES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pa = library("pyarrow")
ds = library("pyarrow.dataset")
parquet = library("pyarrow.parquet")

pytestmark = pytest.mark.full

PLAIN = STORES / "plain-5.3.3"
STORE_NAMES = sorted(path.name for path in STORES.iterdir() if path.is_dir())
_TIMES = ("bornTimestamp", "storeTimestamp")


def expected(store: Path, **wanted: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any filter
    messages = rmqtool.open(store).messages(**wanted)
    found = ((json_object(one), one.body) for one in messages)
    return [{name: (one | {"body": body})[name] for name in COLUMNS} for one, body in found]


def in_order(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: one["physicalOffset"])


def plain(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a table of Arrow
    """Return rows with times as numbers, and properties as a dict."""
    for number, field in enumerate(table.schema):
        if field.name in _TIMES:
            table = table.set_column(number, field.name, table[field.name].cast(pa.int64()))
    return in_order({**one, "properties": dict(one["properties"])} for one in table.to_pylist())


def read_lines(out: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(out.rglob("*.ndjson")) for line in path.read_text().splitlines()
    ]


def read_csv(out: Path) -> list[dict[str, str]]:
    texts = (io.StringIO(path.read_bytes().decode(), newline="") for path in sorted(out.rglob("*.csv")))
    return [row for text in texts for row in csv.DictReader(text, strict=True)]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", STORE_NAMES)
def test_parquet_of_every_store(name: str, tmp_path: Path) -> None:
    report = rmqtool.export(rmqtool.open(STORES / name), tmp_path / "out", max_findings=100)
    messages = rmqtool.open(STORES / name).messages()
    assert report.messages == len(list(messages))
    assert report.findings.counts == messages.findings.counts
    found = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert plain(found) == expected(STORES / name)


@pytest.mark.parametrize("split_bytes", [700, 5000, 20_000])
@pytest.mark.parametrize("name", ["plain-5.3.3", "crash-5.3.3"])
def test_any_cut_gives_the_same(
    name: str, split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "TASK_BYTES", split_bytes)
    monkeypatch.setattr(pieces, "COLUMN_SPLIT_BYTES", 512)
    monkeypatch.setattr(files, "GROUP_BYTES", 1000)
    report = rmqtool.export(rmqtool.open(STORES / name), tmp_path / "out", max_findings=100)
    messages = rmqtool.open(STORES / name).messages()
    assert plain(ds.dataset(tmp_path / "out", format="parquet").to_table()) == expected(STORES / name)
    assert report.messages == len(list(messages))
    assert report.findings.counts == messages.findings.counts
    written = {path.relative_to(tmp_path / "out").as_posix() for path in tmp_path.rglob("*.parquet")}
    assert written == {file.name for file in report.files}


def test_damage_is_told_and_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record over a boundary of tasks, a body with a wrong checksum, a stretch of zeros."""
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    data = bytearray(b"".join(path.read_bytes() for path in sorted((PLAIN / "commitlog").iterdir())[:1]))
    data[150] ^= 1
    data[4000:4400] = bytes(400)
    (log / f"{0:020}").write_bytes(data)
    monkeypatch.setattr(task, "TASK_BYTES", 4100)
    report = rmqtool.export(rmqtool.open(log), tmp_path / "out", max_findings=100)
    messages = rmqtool.open(log).messages()
    found = plain(ds.dataset(tmp_path / "out", format="parquet").to_table())
    assert found == expected(log)
    assert found[0]["damage"] == ["CL-CRC"]
    assert list(messages)
    assert {*report.findings.counts} == {*messages.findings.counts} >= {"CL-CRC"}
    assert report.exit_status() == 5


def test_ranges_and_filters(tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"topic": "T*", "queue": 1, "from_offset": 300, "to_offset": 40_000}
    rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", **wanted)
    found = plain(ds.dataset(tmp_path / "out", format="parquet").to_table())
    assert found == expected(PLAIN, **wanted) != []


@pytest.mark.parametrize("glob", ["[TO]*", "Top?cTest"])
def test_any_glob(glob: str, tmp_path: Path) -> None:
    rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", topic=glob)
    assert (
        plain(ds.dataset(tmp_path / "out", format="parquet").to_table()) == expected(PLAIN, topic=glob) != []
    )


def test_lines_are_those_of_dump(tmp_path: Path) -> None:
    name = "unicode-5.3.3"
    rmqtool.export(rmqtool.open(STORES / name), tmp_path / "out", format="ndjson", body="hex")
    wanted = [{**one, "body": one["body"].hex(), "bodyEncoding": "hex"} for one in expected(STORES / name)]
    found = read_lines(tmp_path / "out")
    assert found == wanted
    assert list(found[0])[-9:-6] == ["body", "bodyEncoding", "properties"]


@pytest.mark.parametrize("name", ["unicode-5.3.3", "plain-5.3.3"])
def test_csv_holds_the_same(name: str, tmp_path: Path) -> None:
    rmqtool.export(rmqtool.open(STORES / name), tmp_path / "out", format="csv", body="base64")
    found, wanted = read_csv(tmp_path / "out"), expected(STORES / name)
    assert [one["bodyEncoding"] for one in found] == ["base64"] * len(wanted)
    for row, message in zip(found, wanted, strict=True):
        assert row["topic"] == message["topic"]
        assert int(row["storeTimestamp"]) == message["storeTimestamp"]
        assert json.loads(row["properties"]) == message["properties"]
        assert json.loads(row["keys"]) == message["keys"]
        assert row["tags"] == escape_controls(message["tags"] or "")


def test_text_bodies_in_cells(tmp_path: Path) -> None:
    """A body with controls would be another body once they are escaped."""
    rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", format="csv", columns=["body"])
    found = read_csv(tmp_path / "out")
    assert [one["body"] for one in found if one["bodyEncoding"] == "utf-8"]
    for row, message in zip(found, expected(PLAIN), strict=True):
        if row["bodyEncoding"] == "utf-8":
            assert row["body"].encode() == message["body"]


def test_bodies_of_several_lines_are_text_in_cells(tmp_path: Path) -> None:
    log, texts = tmp_path / "store" / "commitlog", [b'{\n\t"a": 1\r\n}', b"a\x0bb"]
    log.mkdir(parents=True)
    (log / f"{0:020}").write_bytes(open_file(0, 4096, texts))
    rmqtool.export(rmqtool.open(log), tmp_path / "out", format="csv", columns=["body"])
    assert read_csv(tmp_path / "out") == [
        {"body": texts[0].decode(), "bodyEncoding": "utf-8"},
        {"body": "YQti", "bodyEncoding": "base64"},
    ]


@pytest.mark.parametrize("form", list(FileFormat))
def test_folders_by_topic(form: FileFormat, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = rmqtool.export(rmqtool.open(PLAIN), out, format=form, partition_by="topic")
    folders = {path.name for path in out.iterdir() if path.is_dir()}
    assert folders == {
        "topic=%25DLQ%25billing",
        "topic=%25RETRY%25billing",
        "topic=Orders",
        "topic=Payments",
        "topic=TopicTest",
    }
    assert sum(file.messages for file in report.files) == 163
    assert {file.name: (out / file.name).stat().st_size for file in report.files} == {
        file.name: file.bytes for file in report.files
    }


def test_hive_s_readers_get_the_topic_back(tmp_path: Path) -> None:
    rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", partition_by="topic")
    found = plain(ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table())
    assert [{name: one[name] for name in COLUMNS} for one in found] == expected(PLAIN)


def test_folders_by_day(tmp_path: Path) -> None:
    columns = ["physicalOffset", "topic"]
    report = rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", partition_by="day", columns=columns)
    (folder,) = {file.name.partition("/")[0] for file in report.files}
    assert folder == "day=2026-11-21"
    assert parquet.read_schema(tmp_path / "out" / report.files[0].name).names == columns


def odd_times(folder: Path) -> Path:
    """Return a log of four messages, two of which state times that no calendar has."""
    log, data = folder / "store" / "commitlog", b""
    log.mkdir(parents=True)
    for number in (LATEST_MS, LATEST_MS + 1, EARLIEST_MS, -119_251_235_869_758_522):
        data += record(len(data), bornTimestamp=number, storeTimestamp=number, queueOffset=len(data))
    (log / f"{0:020}").write_bytes(data.ljust(4096, b"\0"))
    return log


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_time_that_no_calendar_has_is_null(form: str, tmp_path: Path) -> None:
    log = odd_times(tmp_path)
    rmqtool.export(rmqtool.open(log), tmp_path / "out", format=form)
    for found in (
        ds.dataset(tmp_path / "out", format=form).to_table(),
        rmqtool.open(log).messages().to_arrow(),
    ):
        for name in _TIMES:
            assert [one and one.year for one in found[name].to_pylist()] == [9999, None, 1, None]


def test_lines_have_every_time(tmp_path: Path) -> None:
    log = odd_times(tmp_path)
    rmqtool.export(rmqtool.open(log), tmp_path / "out", format="ndjson")
    assert read_lines(tmp_path / "out") == [
        {name: value for name, value in json_object(one).items() if name in {*COLUMNS, "bodyEncoding"}}
        | {"body": "body", "bodyEncoding": "utf-8"}
        for one in rmqtool.open(log).messages()
    ]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_day_that_no_calendar_has_is_no_day(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rmqtool.export(rmqtool.open(odd_times(tmp_path)), out, format=form, partition_by="day")
    assert {path.name for path in out.iterdir() if path.is_dir()} == {
        "day=0001-01-01",
        "day=9999-12-31",
        "day=__HIVE_DEFAULT_PARTITION__",
    }


def test_a_topic_too_long_for_a_folder_is_cut_and_stops_nothing(tmp_path: Path) -> None:
    """Two that begin alike have a folder each, and the report has their names."""
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    topics = [b"Orders", b"x" + b"%" * 100, b"x" + b"%" * 101]
    data = b""
    for one in topics:
        data += record(len(data), topic=one)
    (log / f"{0:020}").write_bytes(data)
    progress = RecordingProgress()
    report = rmqtool.export(rmqtool.open(log), tmp_path / "out", partition_by="topic", progress=progress)
    told = {one.name.partition("/")[0]: one.topic for one in report.files}
    assert told.pop("topic=Orders") is None
    assert {*told.values()} == {one.decode() for one in topics[1:]}
    for name, topic in told.items():
        assert topic is not None
        assert len(name) <= 255
        assert name.endswith(f"~{sha256(topic.encode()).hexdigest()[:32]}")
        assert quote(topic).startswith(name.removeprefix("topic=")[:-33])
    (sentence,) = progress.warnings
    assert sentence.startswith("2 topics have a longer name than a folder can have")
    document = json.loads((tmp_path / "out/_export.json").read_text())
    jsonschema.validate(document, schema("export"))
    assert sorted("topic" in one for one in document["files"]) == [False, True, True]


def test_no_topic_is_taken_for_one_that_was_cut() -> None:
    cut, is_cut = files.folder_of(Partition.TOPIC, "y" * 300)
    other = cut.removeprefix("topic=")
    assert (len(cut), is_cut) == (255, True)
    assert files.folder_of(Partition.TOPIC, other)[0] != cut
    assert files.folder_of(Partition.TOPIC, other[100:]) == (f"topic={other[100:]}", False)


@pytest.mark.parametrize("form", list(FileFormat))
def test_files_without_a_column_are_refused(form: FileFormat, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leaves files without a column"):
        rmqtool.export(
            rmqtool.open(PLAIN), tmp_path / "out", format=form, columns=["topic"], partition_by="topic"
        )
    assert list(tmp_path.iterdir()) == []


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_OPEN_FILES", 2)
    monkeypatch.setattr(files, "GROUP_BYTES", 1)
    report = rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", partition_by="topic")
    found = ds.dataset(tmp_path / "out", format="parquet", partitioning="hive").to_table()
    assert found.num_rows == report.messages == 163


def test_several_stores(tmp_path: Path) -> None:
    stores = [rmqtool.open(STORES / "plain-5.3.3"), rmqtool.open(STORES / "plain-5.3.3")]
    report = rmqtool.export(stores, tmp_path / "out", columns=["topic"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "_export.json",
        "store=plain-5.3.3",
        "store=plain-5.3.3-2",
    }
    assert report.messages == 2 * 163
    assert len(report.stores) == 2


def test_findings_of_several_stores_say_whose_they_are(tmp_path: Path) -> None:
    for name in "abc":
        shutil.copytree(PLAIN, tmp_path / name)
        path = next((tmp_path / name / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        data[150 if name != "b" else 0] ^= 1
        path.write_bytes(data)
    stores = [rmqtool.open(tmp_path / name) for name in "ab"]
    report = rmqtool.export(stores, tmp_path / "out")
    document = json.loads((tmp_path / "out/_export.json").read_text())
    jsonschema.validate(document, schema("export"))
    found = {(one["store"].rpartition("/")[2], one["code"]) for one in document["findings"]}
    assert ("a", "CL-CRC") in found
    assert {store for store, _ in found} == {"a", "b"}
    text = io.StringIO()
    export_text(report, TextReport(text))
    assert f"CL-CRC (error): {tmp_path}/a: commitlog/" in text.getvalue()
    alone = rmqtool.export(rmqtool.open(tmp_path / "c"), tmp_path / "alone")
    assert "store" not in json_object(alone)["findings"][0]


def test_arrow_files(tmp_path: Path) -> None:
    report = rmqtool.export(rmqtool.open(PLAIN), tmp_path / "out", format="arrow")
    with pa.ipc.open_file(tmp_path / "out" / report.files[0].name) as file:
        table = file.read_all()
    assert table.schema.names == list(COLUMNS)
    assert table.schema.field("topic").type == pa.string()
    assert plain(table) == expected(PLAIN)


def test_in_one_piece(tmp_path: Path) -> None:
    """As columns without files: tables and batches say the same as the rows."""
    store = rmqtool.open(PLAIN)
    assert plain(store.messages().to_arrow()) == expected(PLAIN)
    assert sum(batch.num_rows for batch in store.messages(limit=20).to_batches(["topic"])) == 20
    messages = store.messages()
    next(messages)
    with pytest.raises(UsageError, match="already read"):
        messages.to_arrow()


@pytest.mark.full
def test_frames() -> None:
    pd = pytest.importorskip("pandas")
    store = rmqtool.open(PLAIN)
    frame = store.messages(topic="Orders").to_pandas(["topic", "storeTimestamp", "properties", "tags"])
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["topic"]) == {"Orders"}
    assert str(frame["storeTimestamp"].dtype) == "datetime64[ms, UTC]"
    assert [*frame["properties"]] == [one["properties"] for one in expected(PLAIN, topic="Orders")]


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rmqtool.columns.find_spec", lambda _: None)
    store = rmqtool.open(PLAIN)
    told = r"^pyarrow is not installed: pip install 'rmqtool\[arrow\]' adds it$"
    with pytest.raises(EnvironmentFailureError, match=told):
        store.messages().to_arrow()
    with pytest.raises(EnvironmentFailureError, match=told):
        rmqtool.export(store, tmp_path / "out")
    monkeypatch.setattr("rmqtool.columns.find_spec", lambda name: name == "pyarrow" or None)
    with pytest.raises(
        EnvironmentFailureError, match=r"^pandas is not installed: pip install pandas adds it$"
    ):
        store.messages().to_pandas()
    assert not list(tmp_path.iterdir())


def test_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A disk that is full halfway leaves nothing, and says so."""
    store, out = rmqtool.open(PLAIN), tmp_path / "out"
    written = 0

    def write_at(_: object, _position: int, data: bytes) -> None:
        nonlocal written
        written += memoryview(data).nbytes
        if written > 3000:
            raise EnvironmentFailureError("out: cannot be written: No space left on device")

    for form in FileFormat:
        written = 0
        with monkeypatch.context() as patch:
            patch.setattr("rmqtool.store.staging.StagedFile.write_at", write_at)
            with pytest.raises(EnvironmentFailureError, match="No space left"):
                rmqtool.export(store, out, format=form)
        assert list(tmp_path.iterdir()) == []
    rmqtool.export(store, out)
    with pytest.raises(RefusedError, match="exists"):
        rmqtool.export(store, out)
    with pytest.raises(RefusedError, match="evidence"):
        rmqtool.export(store, PLAIN / "out")


def test_the_manual_lists_the_columns() -> None:
    lines = (DOCS / "export.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    listed = {row[0].strip("`"): row[1:] for row in rows if len(row) == 3}
    words = {
        "dictionary of string": pa.dictionary(pa.int32(), pa.string()),
        "int64": pa.int64(),
        "int32": pa.int32(),
        "timestamp, ms, UTC, or null": pa.timestamp("ms", tz="UTC"),
        "binary": pa.binary(),
        "string": pa.string(),
        "string or null": pa.string(),
    }
    assert {name: row[1] for name, row in listed.items()} == COLUMNS
    for field in schema_of(ColumnChoice()):
        told = listed[field.name][0]
        assert words.get(told, field.type) == field.type
        assert told.endswith("or null") == field.nullable
