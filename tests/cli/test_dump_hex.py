"""``dump --hex`` and ``--layout``: every byte has its name, and damage is named as far as it goes."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool.formats import checkpoint, consumequeue, entry, index, layout, message
from rmqtool.report.row_text import RowText
from tests.cli.conftest import STORES
from tests.cli.test_dump import of_type, patch
from tests.scan.log_builder import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runs import Run


@pytest.mark.few(1)
def test_hex_names_every_byte_of_every_row(run: Callable[..., Run], any_store: Path) -> None:
    """The bytes of a row's fields, put together, are the bytes of the file from its place on."""
    found = run("dump", any_store, "-c", any_store / "broker.conf", "--format", "ndjson", "--hex", "--slots")
    row: dict[str, Any] = {}
    objects = found.objects
    labels = {one["file"] for one in objects if one["type"] == "bytes"}
    files = {label: (any_store / label).read_bytes() for label in labels}
    for one in objects:
        if one["type"] != "bytes":
            row = one
            continue
        raw = bytes.fromhex(one["raw"])
        assert files[one["file"]][one["position"] : one["position"] + len(raw)] == raw
        if isinstance(row.get(one["name"]), int) and row["type"] not in {"slot", "damage"}:
            assert row[one["name"]] == one["value"]
    fields = [one for one in objects if one["type"] == "bytes" and one["file"].startswith("commitlog")]
    assert fields[0]["javaName"] == "TOTALSIZE"
    message = of_type(found, "message")[0]
    own = [one for one in fields if one["position"] < message["position"] + message["totalSize"]]
    assert sum(len(one["raw"]) // 2 for one in own if one["file"] == message["file"]) == message["totalSize"]


def fields_of(found: Run, number: int = 0) -> dict[str, dict[str, Any]]:
    """Return the fields after a row, by name."""
    groups: list[dict[str, dict[str, Any]]] = []
    for one in found.objects:
        if one["type"] == "bytes":
            groups[-1][one["name"]] = one
        else:
            groups.append({})
    return groups[number]


def text_fields(out: str) -> dict[str, str]:
    """Return what text says of each field of the first row, by its label, with its place."""
    lines = re.findall(r"^ +\d+ +\+(\d+)  ([0-9a-f]{2,16}|) +(\S.*)$", out, re.MULTILINE)
    return {said: f"+{offset} {digits}".rstrip() for offset, digits, said in reversed(lines)}


@pytest.mark.full
def test_places_sizes_and_units_come_from_the_schema(run: Callable[..., Run]) -> None:
    """Of a V1 record, one with IPv6 hosts and a V2 record, which differ in widths."""
    cases = (
        ("plain-5.3.3", 0, "TopicTest"),
        ("ipv6-5.3.3", message.BORN_HOST_V6, None),
        ("v2-5.3.3", 0, None),
    )
    for store, flag, topic in cases:
        words = ("dump", STORES / store / "commitlog", "--format", "ndjson", "--hex")
        everything = run(*words).objects
        wanted = [
            number
            for number, one in enumerate(one for one in everything if one["type"] != "bytes")
            if one["type"] == "message"
            and one["sysFlag"] & flag == flag
            and (store != "v2-5.3.3" or one["magic"] == "V2")
        ]
        found = fields_of(run(*words), wanted[0])
        magic = message.MAGIC_V2 if store == "v2-5.3.3" else message.MAGIC_V1
        for field in layout(message.MESSAGE, sysFlag=found["sysFlag"]["value"], magic=magic):
            one = found[field.name]
            assert (one["javaName"], one["unit"]) == (field.java_name, field.unit)
            assert field.offset in {one["offset"], None}
            assert field.size in {one["size"], None}
        assert found["topicLength"]["value"] == found["topic"]["size"]
        assert topic in {found["topic"]["value"], None}


def test_numbers_are_told_with_unit_and_meaning(run: Callable[..., Run]) -> None:
    out = run("dump", STORES / "plain-5.3.3" / "commitlog", "--hex", "--limit", 1, "--timezone", "UTC").out
    told = text_fields(out)
    assert told["TOTALSIZE  334 bytes"] == "+0 0000014e"
    assert told["MAGICCODE (magic)  -626843481  V1"] == "+4 daa320a7"
    assert told["BODYCRC  1336743943  is that of the body"] == "+8 4fad1807"
    assert told["STORETIMESTAMP  1795231720424 ms  2026-11-21 03:28:40.424Z"] == "+56 000001a1fc2623e8"
    assert told["TAGS = TagA"] == "+311"
    assert "  546f7069 63546573 74                 TopicTest\n" in out


@pytest.mark.parametrize(
    ("store", "part", "expected"),
    [
        (
            "plain-5.3.3",
            "consumequeue/Orders/0",
            {"offset (physicalOffset)  2701 bytes in the log": "+0 0000000000000a8d"},
        ),
        ("plain-5.3.3", "index", {"indexCount  40 items": "+36 00000028"}),
        ("plain-5.3.3", "checkpoint", {"confirmPhyOffset  35456 bytes in the log": "+32 0000000000008a80"}),
        ("ext-5.3.3", "consumequeue_ext", {"size  20 bytes": "+0 0014"}),
        ("batchcq-5.3.3", "batchconsumequeue", {"batchSize  1 message": "+36 0001"}),
        (
            "ext-5.3.3",
            "consumequeue/Extended/0",
            {"tagsCode  -9223372036854775808  ext unit at byte 0": "+12 8000000000000000"},
        ),
    ],
)
def test_every_structure_has_its_fields(
    run: Callable[..., Run], store: str, part: str, expected: dict[str, str]
) -> None:
    out = run("dump", STORES / store / part, "--hex", "--limit", 2).out
    assert expected.items() <= text_fields(out).items()


def test_the_undefined_bytes_of_a_blank_are_folded(run: Callable[..., Run]) -> None:
    words = ("--hex", "--from-offset", 7500, "--to-offset", 8192)
    out = run("dump", STORES / "plain-5.3.3" / "commitlog", *words).out
    assert "MAGICCODE (magic)  -875286124  BLANK" in out
    assert "* 240 bytes of the same" in out
    assert out.endswith("… 51 bytes more\n")


def test_a_damaged_record_is_named_as_far_as_it_goes(run: Callable[..., Run], plain_copy: Path) -> None:
    segment = plain_copy / "commitlog" / f"{0:020d}"
    patch(segment, 333 + 4, b"\xdb")
    words = ("dump", plain_copy / "commitlog", "--hex", "--from-offset", 333, "--to-offset", 340)
    out = run(*words).out
    assert "CL-BAD-MAGIC" in out
    assert text_fields(out)["MAGICCODE (magic)  -610066265  no magic of a record"] == "+4 dba320a7"
    assert "KEYS = order-1 hot" in out
    patch(segment, 333 + 84, b"\x7f\xff\xff\xff")  # a body that would not fit
    rest = fields_of(run(*words, "--format", "ndjson"))
    assert list(rest)[-2:] == ["bodyLength", "damage"]
    assert (rest["damage"]["offset"], rest["damage"]["size"]) == (88, 215 - 88)
    patch(segment, 333, bytes(215))
    assert list(fields_of(run(*words, "--format", "ndjson"))) == ["damage"]


def test_a_record_with_a_wrong_checksum_is_shown_once(run: Callable[..., Run], plain_copy: Path) -> None:
    patch(plain_copy / "commitlog" / f"{0:020d}", 200, b"\xff")
    out = run("dump", plain_copy / "commitlog", "--hex", "--to-offset", 300).out
    assert out.count("TOTALSIZE") == 1
    assert "BODYCRC  1336743943  but the body has " in out


def test_a_damaged_unit_is_named(run: Callable[..., Run], plain_copy: Path) -> None:
    patch(plain_copy / "consumequeue" / "Orders" / "0" / f"{0:020d}", 8, b"\xff\xff\xff\xff")
    out = run("dump", plain_copy / "consumequeue" / "Orders" / "0", "--hex", "--limit", 1).out
    assert text_fields(out)["size  -1 bytes"] == "+8 ffffffff"


@pytest.mark.parametrize(("mode", "lines"), [(None, 4), ("none", 1), ("text", 10), ("hex", 10)])
def test_long_bodies_are_cut_unless_asked_for(run: Callable[..., Run], mode: str | None, lines: int) -> None:
    """159 bytes are ten lines."""
    words = () if mode is None else ("--body", mode)
    out = run("dump", STORES / "plain-5.3.3" / "commitlog", "--hex", "--limit", 1, *words).out
    body = out.split("  BODY  159 bytes\n")[1].split("TOPIC length")[0]
    assert len(re.findall(r"^ {18}[0-9a-f]{8} ", body, re.MULTILINE)) == lines
    assert ("--body hex shows all" in body) is (lines < 10)
    assert out.count("sp<6S+y]o|Z39xD=") == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("width", [40, 80, 200, None])
def test_lines_break_between_words_only(plain: Path, width: int | None) -> None:
    """At 80 columns every line fits; broken or not, the same words stand in the same order."""
    from rmqtool.commands.dump import DumpRequest
    from rmqtool.commands.dump.run import dump
    from rmqtool.report.console import Console
    from rmqtool.store import open_store

    found = list(dump(open_store(plain), DumpRequest(hex=True, slots=True), Console()))[:4000]
    whole, broken = (RowText(None, None, wide, fields=True) for wide in (None, width))
    for row in found:
        text = broken.lines(row)
        assert text.split() == whole.lines(row).split()
        if width == 80 and row.type in {"bytes", "message"}:
            assert max(map(len, text.splitlines())) <= width


def test_colours_tie_bytes_to_their_field(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("dump", STORES / "plain-5.3.3" / "commitlog", "--hex", "--limit", 1)
    plain = run(*words).out
    assert "\x1b" not in plain
    monkeypatch.setenv("NO_COLOR", "1")
    coloured = run(*words, "--color", "always").out
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert re.search(r"(\x1b\[\d+m)0000014e *\x1b\[0m  \1TOTALSIZE\x1b", coloured)


def test_layout_has_all_fields_of_all_formats(run: Callable[..., Run]) -> None:
    schemas = [
        message.MESSAGE,
        message.END_MARK,
        message.INNER_MESSAGE,
        entry.ENTRY,
        entry.ENTRY_END,
        consumequeue.UNIT,
        consumequeue.EXT_UNIT,
        consumequeue.BATCH_UNIT,
        index.HEADER,
        index.SLOT,
        index.ITEM,
        checkpoint.CHECKPOINT,
        entry.ENTRY_UNIT,
    ]
    fields = [field for schema in schemas for field in layout(schema, sysFlag=0)]
    found = run("dump", "--layout", "--format", "ndjson").objects
    assert [(one["name"], one["offset"], one["size"], one["unit"]) for one in found] == [
        (field.name, field.offset, field.size, field.unit) for field in fields
    ]
    out = run("dump", "--layout").out
    assert out.count("offset  size  field") == len(schemas)
    assert "     0     8  offset (physicalOffset)        bytes in the log: where the record lies\n" in out


def test_an_unpacked_body_is_shown_beside_the_stored_one(run: Callable[..., Run], tmp_path: Path) -> None:
    stored = zlib.compress(b"hello")
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(record(0, body=stored, sysFlag=1) + bytes(64))
    out = run("dump", tmp_path, "--hex", "--decompress", "--limit", 1).out
    assert re.search(r"^ {14}hello$", out, re.MULTILINE)
    assert stored[:4].hex() in out
    assert "SYSFLAG  1  compressed, zlib" in out


def test_damage_stands_out_in_colour(run: Callable[..., Run], plain_copy: Path) -> None:
    patch(plain_copy / "commitlog" / f"{0:020d}", 200, b"\xff")
    words = ("dump", plain_copy / "commitlog", "--to-offset", 300)
    assert "\x1b[1;31mCL-CRC\x1b[0m (error)" in run(*words, "--color", "always").out
    assert "\x1b" not in run(*words).out
