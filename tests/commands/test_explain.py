"""Every code and every line can be explained; a wrong name names the closest."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from rmqtool.commands.explain import explained_lines, named
from rmqtool.errors import UsageError
from rmqtool.findings import CATALOG
from rmqtool.findings.log_lines import LOG_LINES

SAMPLES = [
    json.loads(line) for line in Path(__file__).with_name("log_lines.ndjson").read_text("ascii").splitlines()
]
"""Lines as brokers of 4.0.0 to 5.5.1 write them, by the texts of their sources, with numbers in them."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_every_line_is_recognised(sample: dict[str, Any]) -> None:
    (explained,) = explained_lines([sample["line"]])
    assert (explained.name, explained.count) == (sample["name"], 1)
    assert sample["numbers"].items() <= (explained.numbers or [{}])[0].items()


def test_every_form_of_every_kind_has_a_sample() -> None:
    assert {sample["name"] for sample in SAMPLES} == LOG_LINES.keys()
    for name, row in LOG_LINES.items():
        lines = [sample["line"] for sample in SAMPLES if sample["name"] == name]
        for form in row.lines:
            assert any(form.search(line) for line in lines), form.pattern


def test_every_kind_says_something() -> None:
    for row in LOG_LINES.values():
        assert row.meaning.endswith(".")
        assert len(row.title) <= 60
        assert set(row.codes) <= CATALOG.keys()
        assert row.origin[0].isupper()


def test_lines_of_one_kind_are_one_answer() -> None:
    lines = [
        "nothing of a store",
        *(f"[BUG]dispatch message to consume queue error, COMMITLOG OFFSET: {at}" for at in range(100)),
        "found a illegal magic code 0x0",
    ]
    first, second = explained_lines(lines)
    assert (first.name, first.count, second.name) == ("dispatch-skips", 100, "end-of-log")
    assert [values["physicalOffset"] for values in first.numbers] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("line", ["", " " * 9000, "Offset not matched. " * 1000, "\x1b[2J\x00", "{" * 5000])
def test_other_lines_say_nothing(line: str) -> None:
    assert explained_lines([line]) == []


@pytest.mark.parametrize("code", CATALOG)
def test_every_code_is_found_in_any_case(code: str) -> None:
    assert named(code.lower()) == ((CATALOG[code],), [])


@pytest.mark.parametrize("name", LOG_LINES)
def test_every_kind_is_found_by_its_name(name: str) -> None:
    codes, (line,) = named(name)
    assert (codes, line.name, line.count) == ((), name, 0)


def test_all_and_globs() -> None:
    codes, lines = named("all")
    assert codes == tuple(CATALOG.values())
    assert [line.name for line in lines] == list(LOG_LINES)
    assert {entry.code[:3] for entry in named("ix-*")[0]} == {"IX-"}


@pytest.mark.parametrize(
    ("text", "hint"),
    [("CL-CRX", "CL-CRC"), ("CQMISPLACED", "CQ-MISPLACED"), ("end-of-the-log", "end-of-log")],
)
def test_wrong_code_names_the_closest(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean.*{hint}"):
        named(text)


@pytest.mark.parametrize("text", ["", "nothing like it at all", "[", "\x1b[2J"])
def test_nothing_like_a_code(text: str) -> None:
    with pytest.raises(UsageError, match="no finding code"):
        named(text)


@pytest.mark.parametrize("form", [pattern for row in LOG_LINES.values() for pattern in row.lines], ids=str)
def test_no_form_takes_long(form: re.Pattern[str]) -> None:
    """Not even of the parts of its own line, again and again, and without an end."""
    words = re.sub(r"\(\?.*?\)+|\\.|[.+?*()|]", " 1 ", form.pattern).split()
    for size in (1, 2, 4, len(words) - 1):
        parts = words[: max(size, 1)] * 900
        started = time.monotonic()
        explained_lines([" ".join(parts)[:8192], " ".join(words[:-1] * 900)[:8192]])
        assert time.monotonic() - started < 5
