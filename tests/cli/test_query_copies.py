"""One question to several copies of a store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_KEY = ("-t", "TopicTest", "-k", "order-1")
_FIRST = f"commitlog/{0:020d}"
_BODY = 334 + 100


def _copies(folder: Path) -> tuple[Path, Path, Path]:
    """Return a whole store, one with a flipped byte in the message's body, and one without its file."""
    damaged, short = folder / "damaged", folder / "short"
    for root in (damaged, short):
        shutil.copytree(fixture("plain-5.3.3"), root)
    data = bytearray((damaged / _FIRST).read_bytes())
    data[_BODY] ^= 1
    (damaged / _FIRST).write_bytes(data)
    (short / _FIRST).unlink()
    return fixture("plain-5.3.3"), damaged, short


def test_each_copy_says_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, damaged, short = _copies(tmp_path)
    ran = run_line(capsys, "query", short, damaged, whole, *_KEY, "--format", "json")
    assert (ran.status, ran.document["schema"]) == (5, "rmqtool.query-copies/1")
    rows = ran.document["rows"]
    assert [(row["store"], row["state"], row["differs"], row["physicalOffset"]) for row in rows] == [
        (str(short), "missing", [], None),
        (str(damaged), "damaged", ["body"], 334),
        (str(whole), "same", [], 334),
    ]
    assert {(row["topic"], row["queueId"], row["queueOffset"]) for row in rows} == {("TopicTest", 1, 0)}
    text = run_line(capsys, "query", short, damaged, whole, *_KEY).out.splitlines()
    assert text[0].startswith("TopicTest/1 #0, unique key ")
    assert text[0].endswith(": the same in 1 of 3 copies")
    assert [line.split()[1] for line in text[1:]] == ["missing", "damaged:", "same"]


def test_other_content_at_the_same_place_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two stores of one name and another history: what one store has at a queue offset is not the other's."""
    question = ("-t", "TopicTest", "--queue", "1", "--queue-offset", "0", "-m", "1")
    old, new = fixture("plain-4.9.8"), fixture("plain-5.5.1")
    ran = run_line(capsys, "query", old, new, *question, "--format", "ndjson")
    first, second = ran.objects
    assert (ran.status, first["state"], second["state"]) == (0, "same", "different")
    assert second["differs"] == ["totalSize", "storeTimestamp"]


def test_no_copy_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, _, short = _copies(tmp_path)
    ran = run_line(capsys, "query", whole, short, "-t", "TopicTest", "-k", "nobody")
    assert (ran.status, ran.out) == (1, "")
    assert "no message for --topic TopicTest --key nobody in any of 2 stores" in ran.err
    ran = run_line(capsys, "query", whole, short, *_KEY, "--explain")
    assert ran.status == 2
    assert "--explain is for one store" in ran.err
    ran = run_line(capsys, "query", whole, tmp_path / "none", *_KEY)
    assert (ran.status, ran.out.count("same")) == (3, 2)
