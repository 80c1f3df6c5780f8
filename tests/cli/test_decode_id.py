"""``decode-id``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Run

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
    assert "is no message id" in found.err
    assert UNIQUE_ID in found.out
