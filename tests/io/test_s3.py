"""Stores on a real S3 server: the answers are those about the same files on a disk, or one clear error."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqtool.io import places_of
from tests.extra import library
from tests.io.s3_results import alike
from tests.io.s3_server import Proxy, put, stores_behind_proxy
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.io.s3_server import Reply, Request

library("moto")

pytestmark = pytest.mark.full

MAIN, MORE, SMALL = "unicode-4.9.8", ("plain-5.5.1", "crash-4.9.8"), "indexempty-4.9.8"
LOG = f"{SMALL}/commitlog/00000000000000000000"
COMMANDS = {
    "info": "info STORE --format json",
    "verify": "verify STORE --predict-recovery all --format json",
    "verify-part": "verify STORE/consumequeue --level 1 --format ndjson",
    "query-key": "query STORE --topic emoji-😀 --key 😀 --explain --format json",
    "query-time": "query STORE --topic TopicTest --begin 2000-01-01 --max 5 --format json",
    "query-scan": "query STORE --key 订单 --scan --format ndjson",
    "dump": "dump STORE --format ndjson --body hex",
    "dump-file": "dump STORE/checkpoint --format ndjson",
    "topics": "topics STORE --queues --format json",
    "offsets": "offsets STORE --format json",
    "diff": "diff STORE STORE --format json",
    "report": "report STORE --hash-log --format json",
}


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with stores_behind_proxy({name: fixture(name) for name in (MAIN, *MORE, SMALL)}) as one:
        yield one


@pytest.fixture(autouse=True)
def _unharmed(proxy: Proxy) -> None:
    proxy.begin(lambda request, reply: reply)


@pytest.mark.parametrize(
    ("name", "command"), [*((MAIN, command) for command in COMMANDS), *((name, "verify") for name in MORE)]
)
def test_a_command_says_the_same_as_of_a_disk(
    name: str, command: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    del proxy
    results = []
    for store in (str(fixture(name)), f"s3://bucket/{name}"):
        status, *texts = run_line(capsys, *COMMANDS[command].replace("STORE", store).split())
        results.append((status, *(alike(text, store) for text in texts)))
    assert results[0] == results[1]
    assert results[0][0] in {0, 1, 5}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("rebuild STORE --out OUT --engine local", "consumequeue"),
        ("export STORE --out OUT --format ndjson", ""),
        ("salvage STORE --out OUT", "commitlog"),
    ],
)
def test_what_is_made_of_it_is_the_same(
    words: str, part: str, proxy: Proxy, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del proxy
    made = []
    for number, store in enumerate((str(fixture(SMALL)), f"s3://bucket/{SMALL}")):
        out = tmp_path / str(number)
        status, *_ = run_line(capsys, *words.replace("STORE", store).replace("OUT", str(out)).split())
        files = (one for one in (out / part).rglob("*") if one.is_file() and one.name != "_export.json")
        made.append((status, {str(one.relative_to(out)): one.read_bytes() for one in files}))
    assert made[0] == made[1]
    assert made[0][0] == 0
    assert made[0][1]


# Faults

DUMP = ("dump", f"s3://bucket/{SMALL}", "--format", "ndjson")


@pytest.fixture
def expected(capsys: pytest.CaptureFixture[str]) -> str:
    return run_line(capsys, "dump", fixture(SMALL), "--format", "ndjson")[1]


def _once(fault: Callable[[Reply], Reply]) -> Callable[[Request, Reply], Reply]:
    """Do something to the first reply to each request."""
    return lambda request, reply: fault(reply) if request.number == 0 else reply


def _always(fault: Callable[[Reply], Reply]) -> Callable[[Request, Reply], Reply]:
    """Do something to every range of the log."""
    return lambda request, reply: fault(reply) if LOG in request.path and request.method == "GET" else reply


def _cut(reply: Reply) -> Reply:
    return replace(reply, body=reply.body[: len(reply.body) // 2], announced=len(reply.body), is_cut=True)


def _short(reply: Reply) -> Reply:
    return replace(reply, body=reply.body[:-1]) if reply.status == 206 else reply


FAULTS: dict[str, Callable[[Reply], Reply]] = {
    "503": lambda reply: replace(reply, status=503, headers={}, body=b""),
    "500": lambda reply: replace(reply, status=500, headers={}, body=b"<html>"),
    "cut": _cut,
    "truncated": _short,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_not_noticed(
    fault: str, proxy: Proxy, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.begin(_once(FAULTS[fault]))
    assert run_line(capsys, *DUMP)[:2] == (0, expected)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_is_one_error(
    fault: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.begin(_always(FAULTS[fault]))
    for words in (DUMP, ("verify", f"s3://bucket/{SMALL}", "--format", "json")):
        status, out, err = run_line(capsys, *words)
        assert status == 3
        assert "s3://bucket/" + LOG in err
        assert "cannot be read, tried 4 times" in err
        assert "Traceback" not in err
        assert words == DUMP or not out


def test_a_slow_server_is_waited_for(proxy: Proxy, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    proxy.begin(lambda request, reply: replace(reply, pause_s=0.02))
    assert run_line(capsys, *DUMP)[:2] == (0, expected)


def test_a_silent_server_is_an_error(
    proxy: Proxy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqtool.io.object_store.SILENCE_TIMEOUT_S", 1.0)
    monkeypatch.setattr("rmqtool.io.object_store.ATTEMPTS", 2)
    proxy.begin(_always(lambda reply: replace(reply, pause_s=10.0)))
    status, _, err = run_line(capsys, *DUMP)
    assert (status, err.count("\n")) == (3, 1)
    assert "cannot be read, tried 2 times" in err


def test_no_server_is_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        status, out, err = run_line(capsys, *DUMP)
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert f"s3://bucket/{SMALL}: cannot be examined, tried 4 times" in err


def test_denied_is_said_with_the_way_out(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    proxy.begin(lambda request, reply: replace(reply, status=403, headers={}, body=b""))
    status, _, err = run_line(capsys, *DUMP)
    assert (status, err.count("\n")) == (3, 1)
    assert "rmqtool help objects" in err


def test_a_bucket_that_is_not_there(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    del proxy
    for url in ("s3://nowhere", "s3://nowhere/store", "s3://bucket/nothing"):
        status, _, err = run_line(capsys, "info", url)
        assert (status, err) == (
            3,
            f"error: {url}: No such file or directory; give a store root or a part of one\n",
        )


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_an_object_that_changes_amid_reading_is_an_error(
    command: str, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written anew after the first range of it, with as many bytes."""
    data = (fixture(SMALL) / LOG.partition("/")[2]).read_bytes()

    def change(request: Request, reply: Reply) -> Reply:
        if LOG in request.path and request.method == "GET" and request.number == 0:
            put(proxy.server_port, f"bucket/{LOG}", data[:-1] + b"x")
        return reply

    proxy.begin(change)
    try:
        status, _, err = run_line(capsys, command, f"s3://bucket/{SMALL}", "--format", "ndjson")
    finally:
        put(proxy.server_port, f"bucket/{LOG}", data)
    assert status == 3
    assert f"s3://bucket/{LOG}: was changed while it was read (ETag was" in err
    assert "Traceback" not in err


# Globs


def test_a_glob_names_stores(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    del proxy
    expected: list[object] = []
    found: list[object] = []
    for target, glob in (
        (expected, [str(fixture(name)) for name in sorted((MAIN, SMALL, "crash-4.9.8"))]),
        (found, ["s3://bucket/*-4.9.[0-9]"]),
    ):
        status, out, _ = run_line(capsys, "verify", *glob, "--format", "json")
        document = json.loads(out)
        target += [status, *((one["store"].rpartition("/")[2], one["verdict"]) for one in document["stores"])]
    assert found == expected
    assert len(found) == 4
    assert [str(place) for place in places_of(f"s3://bucket/{MAIN}/c*")] == [
        f"s3://bucket/{MAIN}/{name}" for name in ("checkpoint", "commitlog", "config", "consumequeue")
    ]


def test_a_glob_that_nothing_fits_is_an_error(proxy: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    del proxy
    status, out, _ = run_line(capsys, "verify", "s3://bucket/none*")
    assert status == 3
    assert "s3://bucket/none* no match" in " ".join(out.split())


@pytest.mark.spark
def test_a_glob_is_a_table_of_spark(proxy: Proxy) -> None:
    del proxy
    from tests.spark.tables import table

    names = sorted((MAIN, SMALL))
    found = table("s3://bucket/[iu]*-4.9.8")
    expected = [row for name in names for row in table(fixture(name))]
    assert [row["store"] for row in found] == [
        row["store"].replace(str(fixture(SMALL).parent), "s3://bucket") for row in expected
    ]
    assert [{**row, "store": ""} for row in found] == [{**row, "store": ""} for row in expected]
