"""Files of the log: what lies in gaps and what is longer than a window becomes a skeleton, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqtool.commands.metadump import make_skeleton
from rmqtool.commands.metadump.disguise import Disguise
from rmqtool.commands.metadump.records import frame_of
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener
from tests.scan.log_builder import blank, record
from tests.scan.walks import windows

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"key"
BODY = b"what was sent " * 40


def _made(tmp_path: Path, data: bytes) -> bytes:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    name = f"commitlog/{0:020d}"
    (tmp_path / "store" / name).write_bytes(data)
    make_skeleton(open_store(tmp_path / "store"), tmp_path / "out", Listener(), KEY)
    found = (tmp_path / "out" / name).read_bytes()
    assert len(found) == len(data)
    return found


def _check(found: bytes, at: int, old: bytes) -> None:
    """Check that a record is the same but for names, hosts and the body, which is zeros."""
    frame = frame_of(found[at:])
    assert frame is not None
    assert frame._replace(body_crc=0) == frame_of(old)._replace(body_crc=0)  # type: ignore[union-attr]
    raw = found[at : at + frame.stop]
    assert not any(raw[frame.body : frame.body_stop])
    assert raw[frame.topic : frame.topic_stop] == Disguise(KEY).name(b"TopicTest")


@pytest.mark.parametrize("hole", [8, 100, 4096, 3 << 20])
def test_the_record_after_zeros(tmp_path: Path, hole: int) -> None:
    first = record(0, body=BODY)
    at = len(first) + hole
    old = record(at, body=BODY)
    found = _made(tmp_path, first + bytes(hole) + old + blank(200))
    _check(found, 0, first)
    assert not any(found[len(first) : at])
    _check(found, at, old)


def test_records_of_elsewhere_in_a_gap_and_after_the_end(tmp_path: Path) -> None:
    first, stale = record(0, body=BODY), record(7_000_000, body=BODY)
    torn = record(1, body=BODY)[:60] + b"what was sent"
    at = len(first) + len(torn) + len(stale)
    last = record(at + 30, body=BODY)
    whole = first + torn + stale + b"what was left unfinished there" + last
    found = _made(tmp_path, whole + blank(8 + 2 * len(stale))[:8] + 2 * stale)
    end = len(whole) + 8
    for place, old in ((0, first), (at - len(stale), stale), (at + 30, last), (end, stale)):
        _check(found, place, old)
    _check(found, end + len(stale), stale)
    assert found[len(whole) : end] == blank(8 + 2 * len(stale))[:8]
    assert b"what was" not in found


def test_a_record_longer_than_a_window(tmp_path: Path) -> None:
    first, second = record(0, body=100 * BODY), record(len(record(0, body=100 * BODY)))
    with windows(256, 1024):
        found = _made(tmp_path, first + second + blank(100))
    _check(found, 0, first)
    _check(found, len(first), second)
