"""Which file of the log a start begins with, by release and by what it goes by; one row a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rmqtool.recovery import predict_recovery
from rmqtool.releases import RELEASES
from tests.recovery.logs import FILE_BYTES, TinyLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FILES = 14
TIME = TinyLog.time_ms


@dataclass(frozen=True)
class Row:
    """A state of the store, and the number of the file that each release begins with.

    Attributes:
        name: what it shows.
        prepare: makes the state.
        first: the file's number by release; a release that is not named does as the one before it.
        given: settings of the broker.
    """

    name: str
    prepare: Callable[[TinyLog], object]
    first: Mapping[str, int]
    given: Mapping[str, object] = field(default_factory=dict)


def _zero_time(log: TinyLog) -> object:
    return log.overwrite(13 * FILE_BYTES + 56, bytes(8))


def _flip_body(log: TinyLog) -> object:
    return log.overwrite(13 * FILE_BYTES + 88, b"B")


_CLEAN = (
    Row("queues complete", lambda log: log.queue(), {"4.9.8": 11, "5.3.3": 13}),
    Row("no queues: the window", lambda _: None, {"4.9.8": 11, "5.3.3": 0, "5.4.0": 4}),
    Row("queues end in file 2", lambda log: log.queue(6), {"4.9.8": 11, "5.3.3": 2, "5.4.0": 4}),
    Row("queues end in file 4", lambda log: log.queue(10), {"4.9.8": 11, "5.3.3": 4}),
    Row(
        "a window of 3",
        lambda _: None,
        {"4.9.8": 11, "5.3.3": 0, "5.4.0": 11},
        {"commitLogRecoverMaxNum": 3},
    ),
    Row(
        "a window of 1", lambda _: None, {"4.9.8": 11, "5.3.3": 0, "5.4.0": 13}, {"commitLogRecoverMaxNum": 1}
    ),
    Row(
        "a window of nothing is ten",
        lambda _: None,
        {"4.9.8": 11, "5.3.3": 0, "5.4.0": 4},
        {"commitLogRecoverMaxNum": 0},
    ),
    Row(
        "a negative window is ten",
        lambda _: None,
        {"4.9.8": 11, "5.3.3": 0, "5.4.0": 4},
        {"commitLogRecoverMaxNum": -7},
    ),
    Row("a window of all", lambda _: None, {"4.9.8": 11, "5.3.3": 0}, {"commitLogRecoverMaxNum": FILES}),
    Row(
        "a file of zeros counts",
        lambda log: log.preallocate(),
        {"4.9.8": 12, "5.3.3": 0, "5.4.0": 5},
    ),
    Row(
        "a file of zeros never matches",
        lambda log: log.queue().preallocate(),
        {"4.9.8": 12, "5.3.3": 13},
    ),
    Row(
        "the first record must parse",
        lambda log: _flip_body(log.queue()),
        {"4.9.8": 11, "5.3.3": 13, "5.3.4": 12},
    ),
    Row(
        "checksums do not count",
        lambda log: _flip_body(log.queue()),
        {"4.9.8": 11, "5.3.3": 13},
        {"checkCRCOnRecover": "false"},
    ),
    Row(
        "a store time of 0",
        lambda log: _zero_time(log.queue()),
        {"4.9.8": 11, "5.3.3": 13, "5.3.4": 12},
    ),
    Row(
        "messageIndexSafe",
        lambda log: log.queue().checkpoint(index=TIME(20)),
        {"4.9.8": 11, "5.3.3": 13, "5.3.4": 10},
        {"messageIndexSafe": "true"},
    ),
    Row(
        "messageIndexSafe without an index",
        lambda log: log.queue().checkpoint(index=TIME(20)),
        {"4.9.8": 11, "5.3.3": 13},
        {"messageIndexSafe": "true", "messageIndexEnable": "false"},
    ),
)

_UNCLEAN = (
    Row(
        "by time, three seconds less",
        lambda log: log.queue().checkpoint(physic=TIME(23), logics=TIME(24)),
        {"4.9.8": 10, "5.5.0": 12},
    ),
    Row(
        "5.5 does not ask for physicMsgTimestamp",
        lambda log: log.queue().checkpoint(physic=TIME(12), logics=TIME(24)),
        {"4.9.8": 4, "5.5.0": 12},
    ),
    Row(
        "by logicsPhysicalOffset",
        lambda log: log.queue().checkpoint(physic=TIME(27), logics=TIME(27), logics_offset=log.offsets[17]),
        {"4.9.8": 12, "5.5.0": 8},
    ),
    Row(
        "logicsPhysicalOffset beyond the window",
        lambda log: log.queue().checkpoint(physic=TIME(27), logics=TIME(27), logics_offset=log.offsets[5]),
        {"4.9.8": 12, "5.5.0": 4},
    ),
    Row("no checkpoint: the window", lambda log: log.queue(), {"4.9.8": 0, "5.4.0": 4}),
    Row(
        "no checkpoint, a window of 12",
        lambda log: log.queue(),
        {"4.9.8": 0, "5.4.0": 2},
        {"commitLogRecoverMaxNum": 12},
    ),
    Row(
        "the first record must parse",
        lambda log: _flip_body(log.queue().checkpoint(physic=TIME(40), logics=TIME(40))),
        {"4.9.8": 13, "5.3.4": 12},
    ),
    Row(
        "messageIndexSafe",
        lambda log: log.queue().checkpoint(physic=TIME(27), logics=TIME(27), index=TIME(13)),
        {"4.9.8": 6},
        {"messageIndexSafe": "true"},
    ),
    Row(
        "messageIndexSafe beside logicsPhysicalOffset",
        lambda log: log.queue().checkpoint(
            physic=TIME(27), logics=TIME(27), index=TIME(13), logics_offset=log.offsets[17]
        ),
        {"4.9.8": 6},
        {"messageIndexSafe": "true"},
    ),
)


def _by_release(first: Mapping[str, int]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for name in RELEASES:
        found.append((name, first.get(name, found[-1][1] if found else -1)))
    return found


def _cases(rows: tuple[Row, ...]) -> list[object]:
    return [
        pytest.param(row, name, number, id=f"{row.name}, {name}")
        for row in rows
        for name, number in _by_release(row.first)
    ]


@pytest.mark.parametrize(("row", "name", "number"), _cases(_CLEAN))
def test_clean_start(row: Row, name: str, number: int, tmp_path: Path) -> None:
    """Without ``abort``."""
    log = TinyLog(tmp_path, FILES)
    row.prepare(log)
    recovery = predict_recovery(log.open(**row.given), RELEASES[name]).recovery
    assert recovery is not None
    assert (recovery.kind, recovery.physical_offset) == ("normal", number * FILE_BYTES)


@pytest.mark.parametrize(("row", "name", "number"), _cases(_UNCLEAN))
def test_unclean_start(row: Row, name: str, number: int, tmp_path: Path) -> None:
    """With ``abort``."""
    log = TinyLog(tmp_path, FILES).crash()
    row.prepare(log)
    recovery = predict_recovery(log.open(**row.given), RELEASES[name]).recovery
    assert recovery is not None
    assert (recovery.kind, recovery.physical_offset) == ("abnormal", number * FILE_BYTES)


def test_the_reason_names_the_window(tmp_path: Path) -> None:
    """Who reads it learns which setting decided."""
    log = TinyLog(tmp_path, FILES)
    recovery = predict_recovery(log.open(), RELEASES["5.5.1"]).recovery
    assert recovery is not None
    assert "newest 10 files (commitLogRecoverMaxNum)" in recovery.reason


def test_the_reason_names_the_limit(tmp_path: Path) -> None:
    """The offset of the checkpoint is told, and that it is the checkpoint's."""
    log = TinyLog(tmp_path, FILES).queue().crash()
    log.checkpoint(physic=TIME(27), logics=TIME(27), logics_offset=log.offsets[17])
    recovery = predict_recovery(log.open(), RELEASES["5.5.1"]).recovery
    assert recovery is not None
    assert f"lies at or before {log.offsets[17]} (logicsPhysicalOffset" in recovery.reason
