"""``decode-id``: every kind of id, every reading that it allows."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import STORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runs import Run

OFFSET_ID = "0A09080700002A9F000000004000002A"
UNIQUE_ID = "C0A80114E24018B4AAC24AF57400002A"


def test_an_id_is_shown_with_every_reading_it_allows(run: Callable[..., Run]) -> None:
    found = run("decode-id", OFFSET_ID, UNIQUE_ID, "--format", "ndjson", "--timezone", "Asia/Shanghai")
    assert found.status == 0
    readings = [(one["id"], one["reading"], one["plausible"]) for one in found.objects]
    assert readings == [
        (OFFSET_ID, "offset-id", True),
        (OFFSET_ID, "unique-id", True),
        (UNIQUE_ID, "unique-id", True),
        (UNIQUE_ID, "offset-id", False),
    ]
    assert (found.objects[0]["host"], found.objects[0]["port"]) == ("10.9.8.7", 10911)
    assert found.objects[0]["physicalOffset"] == 1073741866


def test_the_month_of_a_unique_id_comes_from_near(run: Callable[..., Run]) -> None:
    words = ("decode-id", UNIQUE_ID, "--near", "1650000000007", "--timezone", "Asia/Shanghai")
    assert run(*words, "--format", "json").document["rows"][0]["timestamp"] == 1650000000000
    assert "2022-04-15 13:20:00.000" in run(*words).out
    assert "of a month" in run("decode-id", UNIQUE_ID).out


def test_what_is_no_id_is_a_negative_answer(run: Callable[..., Run]) -> None:
    found = run("decode-id", "\x1b[31m", UNIQUE_ID)
    assert found.status == 1
    assert "\x1b" not in found.err
    assert "is not a message ID" in found.err
    assert UNIQUE_ID in found.out


def test_a_unique_id_may_be_of_any_month_that_is_long_enough(run: Callable[..., Run]) -> None:
    """30 days and 12 hours after its start, a month is the 31st: not every month has one."""
    late = f"{UNIQUE_ID[:20]}{(30 * 24 + 12) * 3600_000:08X}0001"
    rows = run("decode-id", late, "--timezone", "UTC", "--format", "ndjson").objects
    candidates = next(row["candidates"] for row in rows if row["reading"] == "unique-id")
    moments = [datetime.fromtimestamp(one / 1000, UTC) for one in candidates]
    assert {(one.day, one.hour) for one in moments} == {(31, 12)}
    assert 6 <= len(moments) <= 7
    assert moments == sorted(moments, reverse=True)
    assert moments[0] < datetime.now(UTC)
    assert run("decode-id", late).out.count("perhaps") == 3
    near = run("decode-id", late, "--near", "2022-05-30", "--format", "ndjson").objects[0]
    assert near["candidates"] is None


def test_the_id_of_a_grpc_client_is_taken_apart(run: Callable[..., Run]) -> None:
    """The example of its specification; case does not matter."""
    text = "0156F7E71C361B21BC024CCDBE00000000"
    found = run("decode-id", text.lower(), "--timezone", "Asia/Shanghai", "--format", "json")
    (row,) = found.document["rows"]
    assert (row["reading"], row["mac"], row["processId"], row["counter"]) == (
        "client-id",
        "56:F7:E7:1C:36:1B",
        0x21BC,
        0,
    )
    utc_ms = 1609459200000 + 0x024CCDBE * 1000
    assert (row["timestamp"], row["candidates"]) == (utc_ms - 8 * 3600_000, [utc_ms])
    assert (
        run("decode-id", text, "--timezone", "UTC", "--format", "json").document["rows"][0]["candidates"]
        is None
    )
    assert "56:F7:E7:1C:36:1B" in run("decode-id", text).out
    assert run("decode-id", f"02{text[2:]}").status == 1


def test_ids_come_from_standard_input(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"{OFFSET_ID}\n\n {UNIQUE_ID.lower()} \r\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    found = run("decode-id", "-", "--format", "ndjson")
    assert found.status == 0
    assert [row["id"] for row in found.objects if row["plausible"]] == [
        OFFSET_ID,
        OFFSET_ID,
        UNIQUE_ID.lower(),
    ]


@pytest.mark.parametrize("name", ["plain-4.9.8", "ipv6-4.9.8", "ipv6-5.3.3"])
def test_offset_ids_of_real_messages_name_their_place(run: Callable[..., Run], name: str) -> None:
    """IPv4 and IPv6, as dump shows them."""
    messages = [
        row
        for row in run("dump", STORES / name / "commitlog", "--format", "ndjson").objects
        if row["type"] == "message"
    ]
    rows = run("decode-id", *(one["msgId"] for one in messages), "--format", "ndjson").objects
    places = [
        (row["host"], row["port"], row["physicalOffset"]) for row in rows if row["reading"] == "offset-id"
    ]
    hosts = [one["storeHost"].rpartition(":") for one in messages]
    expected = [
        (ip_address(host.strip("[]")), int(port), one["physicalOffset"])
        for (host, _, port), one in zip(hosts, messages, strict=True)
    ]
    assert [(ip_address(host), port, offset) for host, port, offset in places] == expected


@pytest.mark.parametrize(
    "text", ["", "0" * 33, "0" * 55, "g" * 32, "\u0660" * 32, "0" * 31 + " ", "0x" + "0" * 30]
)
def test_nothing_else_is_an_id(run: Callable[..., Run], text: str) -> None:
    assert run("decode-id", text).status == 1
