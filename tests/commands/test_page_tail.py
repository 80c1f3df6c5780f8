"""Stale bytes up to the next page after the log's end: a note where a broker may write whole pages."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from rmqtool.actions.verification import verify
from rmqtool.check import VerifyRequest
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.record_walk import find_log_end
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.running import ONE_THREAD, codes
from tests.damage.verdicts import (
    said_by_diff,
    said_by_dump,
    said_by_info,
    said_by_query,
    said_by_rebuild,
    said_by_verify,
)
from tests.scan.log_builder import record, segment
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings import Finding

STORES = {"pages-5.5.1": 21020, "pagecopies-5.5.1": 22020}
_SEGMENT, _PAGE = 8192, 4096
_PHYSICAL_OFFSET_AT = 28


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a store; nothing but its files tells how it was written."""
    shutil.copytree(fixture(request.param), tmp_path / "store")
    (tmp_path / "store" / "broker.conf").unlink()
    return tmp_path / "store"


def end_of(root: Path) -> int:
    """Return where the log of a copy ends."""
    return STORES["pagecopies-5.5.1" if (root / "abort").exists() else "pages-5.5.1"]


def tail_of(root: Path, *properties: str, version: str | None = None) -> Finding:
    """Return what verify says of a log's tail, and see that it says nothing worse of the store."""
    store = open_store(root, properties=properties, broker_version=version)
    report = verify(VerifyRequest(store, engine=ONE_THREAD), Listener())
    (found,) = (one for one in report.findings if one.code.code == "CL-TAIL-DIRTY")
    assert not {one.code.code for one in report.findings if one.severity.value == "error"}
    return found


def write(root: Path, place: int, data: bytes) -> None:
    """Write into the log of a copy."""
    path = root / "commitlog" / f"{place // _SEGMENT * _SEGMENT:020}"
    with path.open("r+b") as file:
        file.seek(place % _SEGMENT)
        file.write(data)


def test_every_command_says_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = end_of(root)
    tail = ("CL-TAIL-DIRTY", end, -(-end // _SEGMENT) * _SEGMENT - end)
    said, errors = said_by_verify(root)
    assert tail in said
    assert errors == set()
    assert said_by_dump(root, monkeypatch, large=False) == said
    assert said_by_dump(root, monkeypatch, large=True) == said
    assert said_by_query(root, large=False) == set()
    assert said_by_query(root, large=True) == set()
    assert tail in said_by_rebuild(root) <= said
    assert said_by_info(root) == {tail}
    assert said_by_diff(root, root) == set()


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ((), "no damage if writeWithoutMmap is set, which is not known"),
        (("writeWithoutMmap=true",), "no damage, as writeWithoutMmap writes whole pages"),
    ],
)
def test_it_is_a_note_that_says_why(root: Path, properties: tuple[str, ...], sentence: str) -> None:
    found = tail_of(root, *properties)
    assert found.severity.value == "info"
    assert found.physical_offset == end_of(root)
    assert sentence in found.message


def test_copies_of_older_records_belong_to_the_tail(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("pagecopies-5.5.1"), root)
    assert "which the next start puts at the log's end" in tail_of(root).message
    edge = FoundEdge.of(open_store(root))
    assert (edge.stale_from, find_log_end(edge).end) == (22020, 22020)


@pytest.mark.parametrize("version", ["5.3.3", "5.4.0"])
def test_older_brokers_write_no_whole_pages(version: str) -> None:
    found = tail_of(fixture("pages-5.5.1"), version=version)
    assert found.severity.value == "warning"


def test_it_is_not_where_the_setting_is_off() -> None:
    assert tail_of(fixture("pages-5.5.1"), "writeWithoutMmap=false").severity.value == "warning"


@pytest.mark.parametrize(("last", "severity"), [(_PAGE - 1, "info"), (_PAGE, "warning")])
def test_bytes_beyond_the_page_are_none_of_it(last: int, severity: str, tmp_path: Path) -> None:
    one = record(0)
    data = bytearray(4 * _PAGE)
    data[: len(one)] = one
    data[len(one) + 3] = data[last] = 0xEE
    (tmp_path / "commitlog").mkdir()
    segment(tmp_path / "commitlog", 0, bytes(data))
    tail = find_log_end(FoundEdge.of(open_store(tmp_path, broker_version="5.5.1"))).tail
    assert tail is not None
    assert (tail.code.code, tail.physical_offset) == ("CL-TAIL-DIRTY", len(one))
    assert tail.severity.value == severity


def test_a_log_that_ends_with_a_page_has_none(tmp_path: Path) -> None:
    one = record(0, body=bytes(_PAGE - len(record(0, body=b""))))
    assert len(one) == _PAGE
    (tmp_path / "commitlog").mkdir()
    segment(tmp_path / "commitlog", 0, one + b"\xee" + bytes(2 * _PAGE - 1))
    tail = find_log_end(FoundEdge.of(open_store(tmp_path, broker_version="5.5.1"))).tail
    assert tail is not None
    assert tail.severity.value == "warning"


def test_a_damaged_last_record_is_no_copy(tmp_path: Path) -> None:
    """One that says that it lies elsewhere, and is not what lies there, is damage as ever."""
    root = tmp_path / "store"
    shutil.copytree(fixture("pages-5.5.1"), root)
    last = find_log_end(FoundEdge.of(open_store(root))).last
    assert last is not None
    write(root, last.physical_offset + _PHYSICAL_OFFSET_AT, struct.pack(">q", 0))
    store = open_store(root)
    assert FoundEdge.of(store).stale_from is None
    assert "CL-PHY-MISMATCH" in codes(verify(VerifyRequest(store, engine=ONE_THREAD), Listener()))


def test_a_torn_record_is_none_of_it(tmp_path: Path) -> None:
    """What says that it lies there was written there."""
    root = tmp_path / "store"
    shutil.copytree(fixture("pages-5.5.1"), root)
    write(root, 21020, struct.pack(">ii", 300, -626843481) + bytes(20) + struct.pack(">q", 21020))
    store = open_store(root)
    report = verify(VerifyRequest(store, engine=ONE_THREAD), Listener())
    assert {one.code.code for one in report.findings if one.severity.value == "error"} == {"CL-HALF-RECORD"}


def test_messages_that_are_there_are_counted_once() -> None:
    """Old copies after the log's end ask for places that later messages took: no queue leads to them."""
    report = rebuild_store(fixture("pagecopies-5.5.1"), None, None, dry_run=True)
    assert report.present is not None
    assert (report.present.messages, report.units, report.skipped_units) == (76, 76, 2)
