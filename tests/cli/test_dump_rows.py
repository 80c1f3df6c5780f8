"""Rows that programs can use: which types there are, what columns they have, how bodies come."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run

BODIES = [
    b'{"path": "C:\\\\temp", "say": "\\"hi\\"",\r\n\t"name": "\xe8\xae\xa2"}',
    b"",
    b"\xff\xfe no UTF-8",
    b"\x00\x08\x0b\x0c\x1b\x7f",
    "\u202e\x85\ufeff".encode(),
    b"\xed\xa0\x80",
]
IN_CELLS = {BODIES[0], BODIES[1]}


@pytest.fixture(params=["rows", "kernels"])
def bodies(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of all bodies, written by kernels or by rows."""
    if request.param == "kernels":
        monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", 0)
    data = b""
    for body in BODIES:
        data += record(len(data), body=body)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data.ljust(4096, b"\0"))
    return tmp_path


def decoded(row: dict[str, str]) -> bytes:
    return base64.b64decode(row["body"]) if row["bodyEncoding"] == "base64" else row["body"].encode()


def is_text(body: bytes) -> bool:
    return body not in {BODIES[2], BODIES[5]}


def test_text_is_the_body_itself(run: Callable[..., Run], bodies: Path) -> None:
    found = run("dump", bodies, "--rows", "message", "--body", "text", "--format", "ndjson").objects
    assert [decoded(one) for one in found] == BODIES
    assert [one["bodyEncoding"] for one in found] == [
        "utf-8" if is_text(body) else "base64" for body in BODIES
    ]
    assert json.loads(found[0]["body"])["path"] == "C:\\temp"
    rows = run("dump", bodies, "--rows", "message", "--body", "text", "--format", "json").document["rows"]
    assert rows == found


def test_text_in_cells_has_no_harmful_control(run: Callable[..., Run], bodies: Path) -> None:
    out = run("dump", bodies, "--rows", "message", "--body", "text", "--format", "csv").out
    found = list(csv.DictReader(io.StringIO(out, newline="")))
    assert [decoded(one) for one in found] == BODIES
    assert [one["bodyEncoding"] for one in found] == [
        "utf-8" if body in IN_CELLS else "base64" for body in BODIES
    ]
    assert json.loads(found[0]["body"])["path"] == "C:\\temp"
    assert not {"\x1b", "\x7f", "\u202e"} & set(out)


@pytest.mark.parametrize(("mode", "encoding"), [("hex", "hex"), ("base64", "base64"), ("none", None)])
def test_other_encodings_are_named(
    run: Callable[..., Run], bodies: Path, mode: str, encoding: str | None
) -> None:
    found = run("dump", bodies, "--rows", "message", "--body", mode, "--format", "ndjson").objects
    assert {one["bodyEncoding"] for one in found} == {encoding}


@pytest.mark.parametrize("large_log_bytes", [0, 1 << 30])
@pytest.mark.parametrize(
    ("words", "types"),
    [
        (("-t", "Orders"), {"message": 32}),
        (("-t", "Orders", "--queue", "0"), {"message": 12}),
        (("-k", "order-1"), {"message": 1}),
        (("-b", "0"), {"message": 163}),
        (("-t", "Orders", "--type", "commitlog"), {"message": 32}),
        (("-t", "Orders", "--type", "consumequeue"), {"unit": 32}),
        (("-t", "Orders", "--rows", "unit"), {"unit": 32}),
        (("-t", "Orders", "--rows", "unit", "--rows", "message"), {"message": 32, "unit": 32}),
        (("--rows", "blank"), {"blank": 6}),
        (("--rows", "checkpoint"), {"checkpoint": 1}),
    ],
)
def test_message_filters_give_messages(
    run: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    plain: Path,
    words: tuple[str, ...],
    types: dict[str, int],
    large_log_bytes: int,
) -> None:
    monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", large_log_bytes)
    found = run("dump", plain, *words, "--format", "ndjson")
    assert found.status == 0
    assert Counter(one["type"] for one in found.objects) == types


def test_a_document_of_a_large_log_has_the_same_rows(
    run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, plain_copy: Path
) -> None:
    with (plain_copy / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(333)
        file.write(bytes(50))
    texts = []
    for large_log_bytes in (0, 1 << 30):
        monkeypatch.setattr("rmqtool.commands.dump.run.LARGE_LOG_BYTES", large_log_bytes)
        done = run("dump", plain_copy / "commitlog", "--body", "text", "--format", "json")
        assert done.document["exitStatus"] == done.status == 5
        texts.append(done.out[: done.out.rindex("\n]")])
    assert texts[0] == texts[1]


def test_damage_passes_every_filter(run: Callable[..., Run], plain_copy: Path) -> None:
    with (plain_copy / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(333)
        file.write(bytes(50))
    found = run("dump", plain_copy, "-t", "Orders", "--format", "ndjson")
    assert found.status == 5
    assert [one["code"] for one in found.objects if one["type"] == "damage"] == ["CL-HOLE"]


def test_rows_that_are_not_there(run: Callable[..., Run], plain: Path) -> None:
    found = run("dump", plain / "index", "--rows", "unit")
    assert found.status == 2
    assert f"{plain / 'index'}: no file there has rows of the type unit" in found.err


def test_nothing_found_is_told(run: Callable[..., Run], plain: Path) -> None:
    for chosen in ("text", "ndjson", "csv"):
        found = run("dump", plain, "-t", "Ordres", "--format", chosen)
        assert (found.status, found.out) == (1, "")
        assert f"error: nothing for --topic Ordres in {plain}" in found.err
        assert "hint: the store has no topic Ordres; near it: Orders" in found.err
    hinted = run("dump", plain, "-t", "Orders", "-k", "nobody")
    assert (hinted.status, "hint" in hinted.err) == (1, False)
    assert run("dump", plain, "-t", "Ordres", "--fail-on", "never").status == 0


@pytest.mark.parametrize("command", ["dump", "info"])
@pytest.mark.parametrize("size", [20, 1000, 6000])
def test_text_is_no_queue(run: Callable[..., Run], tmp_path: Path, command: str, size: int) -> None:
    """Whatever its length; who knows better says so."""
    path = tmp_path / "notes.txt"
    path.write_text(("2026-11-21 03:28 nothing to report\n" * 200)[:size])
    found = run(command, path)
    assert (found.status, found.out) == (3, "")
    assert f"{path}: is not a recognised file of a store; name its kind with --type" in found.err
    assert run(command, path, "--type", "consumequeue", "--fail-on", "never").status == 0


@pytest.mark.few(6)
def test_queue_files_are_recognised_elsewhere(
    run: Callable[..., Run], any_store: Path, tmp_path: Path
) -> None:
    """Those of every real broker that begin with a unit."""
    there = (path for path in (any_store / "consumequeue").glob("*/*/*") if path.is_file())
    files = sorted(path for path in there if any(path.read_bytes()[8:12]))
    for path in files[:10]:
        copy = tmp_path / "somewhere"
        copy.write_bytes(path.read_bytes())
        found = run("dump", copy, "--format", "ndjson")
        assert {one["type"] for one in found.objects} <= {"unit", "preblank", "damage"}
        assert found.status == 0


@pytest.mark.parametrize("kind", ["index-header", "blank"])
def test_csv_of_rows_that_else_lead_others(run: Callable[..., Run], plain: Path, kind: str) -> None:
    """Asked for by name, headers and BLANKs are the rows, and not what is left out beside others."""
    found = run("dump", plain, "--rows", kind, "--format", "csv")
    head, *lines = found.out.splitlines()
    assert head.startswith("type,file,")
    assert lines
    assert all(line.startswith(f"{kind},") for line in lines)
    assert "left out" not in found.err
