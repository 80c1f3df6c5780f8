"""The kernels find what the plain walk finds, over hostile and damaged logs, however these are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqtool.commands.query import KeyQuestion, QueryRequest
from rmqtool.commands.query.scan import LogAnswers, LogScan
from rmqtool.lookup.context import QueryContext
from rmqtool.report.console import Console
from rmqtool.rows.messages import keys_of
from rmqtool.scan.records import Prefilter
from rmqtool.store import open_store
from tests.builders import LogBuilder, memory_log
from tests.scan.log_builder import record
from tests.store.fixture_stores import STORE_ROOTS
from tests.strategies import FILE_SIZE, examples, logs

if TYPE_CHECKING:
    from pathlib import Path

    from rmqtool.findings import Finding
    from rmqtool.store import FileQueue

PLAIN = 1 << 62


def walked(log: FileQueue, split_bytes: int | None) -> tuple[list[tuple[int, bytes]], list[Finding]]:
    """Return all records and all damage; None walks in plain Python."""
    defects: list[Finding] = []
    small = PLAIN if split_bytes is None else 0
    scan = LogScan(log, Console(quiet=True), defects.append, small, split_bytes or FILE_SIZE)
    records = [(one.physical_offset, one.raw) for one in scan.records(Prefilter(), lambda _: True)]
    return records, sorted(defects, key=lambda one: (one.physical_offset, one.code.code))


@pytest.mark.full
@examples(60)
@given(
    logs(hostile=True, damage=True, lies=True, halves=True),
    st.sampled_from([96, 300, 1000, FILE_SIZE, 10 * FILE_SIZE]),
)
def test_any_cut_finds_the_same_records_and_the_same_damage(log: LogBuilder, split_bytes: int) -> None:
    files = memory_log(log.files())
    assert walked(files, split_bytes) == walked(files, None)


@pytest.mark.parametrize("before", [1, 3])
def test_behind_damage_a_record_with_a_number_that_is_none_counts(before: int) -> None:
    """However the log is cut, it is the next true record."""
    log = LogBuilder(FILE_SIZE)
    for _ in range(before):
        log.add()
    log.add(totalSize=-1)
    place = log.add(topic=b"SCHEDULE_TOPIC_XXXX", properties=b"DELAY\x01x\x02")
    files = memory_log(log.files())
    records, defects = walked(files, None)
    assert [offset for offset, _ in records][before:] == [place]
    for split_bytes in (96, 300, FILE_SIZE):
        assert walked(files, split_bytes) == (records, defects)


@pytest.mark.parametrize("wrong", [0, 1, -1, -200, 5000, -(1 << 31)])
def test_a_record_with_a_number_that_is_none(wrong: int) -> None:
    """It is read if only the number is wrong, in whatever split it ends; with a wrong length it is damage."""
    log = LogBuilder(FILE_SIZE)
    fields = {"topic": b"SCHEDULE_TOPIC_XXXX", "properties": b"DELAY\x01x\x02"}
    size = len(record(0, **fields))
    log.add(**fields, **({"totalSize": max(size + wrong, -(1 << 31))} if wrong else {}))
    log.add()
    files = memory_log(log.files())
    records, defects = walked(files, None)
    assert (len(records), len(defects)) == ((1, 1) if wrong else (2, 0))
    for split_bytes in (40, size, size + 1, FILE_SIZE):
        assert walked(files, split_bytes) == (records, defects)


@pytest.mark.full
@pytest.mark.parametrize("root", STORE_ROOTS, ids=lambda root: root.name)
def test_every_question_has_the_same_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, unique ids, places and times of real stores, through the prefilter and without it."""
    store = open_store(root, broker_conf=root / "broker.conf")
    everything = list(
        LogScan(store.commitlog, Console(quiet=True), print).records(Prefilter(), lambda _: True)
    )
    requests: list[QueryRequest] = []
    for one in everything[:: max(1, len(everything) // 2)]:
        head, topic = one.head, one.topic
        requests += [QueryRequest(topic=topic, key=key, scan=True) for key in keys_of(one)]
        requests += [QueryRequest(key=key, scan=True) for key in keys_of(one)]
        requests.append(QueryRequest(unique_key=one.properties.get("UNIQ_KEY", "?"), scan=True))
        requests.append(QueryRequest(msg_id=one.properties.get("UNIQ_KEY", "?"), scan=True))
        requests.append(QueryRequest(topic=topic, begin_ms=head.store_timestamp_ms, scan=True))
        requests.append(QueryRequest(topic=topic, queue_id=head.queue_id, queue_offset=head.queue_offset))
        for name in one.properties.get("INNER_MULTI_DISPATCH", "").split(",")[:2]:
            requests.append(QueryRequest(topic=name, queue_id=0, queue_offset=1, max_messages=2))

    def answers() -> list[list[int]]:
        asked = [LogAnswers(QueryContext(store, request, Console(quiet=True)), print) for request in requests]
        return [[one.physical_offset for one in answers.records()] for answers in asked]

    plain = answers()
    assert any(plain)
    monkeypatch.setattr(LogScan.__init__, "__defaults__", (0, 700))
    assert answers() == plain


def test_many_keys_in_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question gets its newest messages, in the order of the log; one message may answer several."""
    log = LogBuilder(FILE_SIZE)
    places = [
        log.add(topic=b"T", properties=f"KEYS\x01all k{number % 3}\x02UNIQ_KEY\x01k0".encode())
        for number in range(12)
    ]
    store = open_store(STORE_ROOTS[0])
    monkeypatch.setitem(store.__dict__, "commitlog", memory_log(log.files()))
    questions = [KeyQuestion("T", "all"), KeyQuestion("T", "k0"), KeyQuestion("T", "k0", unique=True)]
    questions += [KeyQuestion("U", "all"), KeyQuestion("T", "k9")]
    request = QueryRequest(keys=tuple(questions), max_messages=2, scan=True)
    for defaults in ((PLAIN, FILE_SIZE), (0, 500)):
        monkeypatch.setattr(LogScan.__init__, "__defaults__", defaults)
        asked = LogAnswers(QueryContext(store, request, Console(quiet=True)), print)
        found = [(one.key, one.unique, record.physical_offset) for one, record in asked.by_keys(questions)]
        assert found == [
            ("all", False, places[10]),
            ("all", False, places[11]),
            ("k0", False, places[6]),
            ("k0", False, places[9]),
            ("k0", True, places[10]),
            ("k0", True, places[11]),
        ]


@pytest.mark.parametrize("small", [PLAIN, 0], ids=["plain", "kernels"])
def test_the_newest_are_taken_from_the_newest_files(small: int) -> None:
    """In the order of the log; an older file is read only if there are too few, and its damage is not met."""
    log = LogBuilder(FILE_SIZE)
    places = [log.add() for _ in range(60)]
    files = log.files()
    oldest = min(files)
    files[oldest] = b"\xff" * 100 + files[oldest][100:]
    readable = [place for place in places if place >= 100]
    for wanted in (1, 5, 20, 59, 60):
        defects: list[Finding] = []
        scan = LogScan(memory_log(files), Console(quiet=True), defects.append, small)
        found = scan.newest(Prefilter(), lambda _: True, wanted)
        assert [one.physical_offset for one in found] == readable[-wanted:]
        assert bool(defects) == (wanted >= 59)
