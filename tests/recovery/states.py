"""States of a store of many tiny files, and what a start of each release begins with: one row a rule.

``tests/recovery`` holds the model against the rows, ``tests/broker`` the real broker against the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.recovery.logs import FILE_BYTES, RECORD_BYTES, TinyLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.damage.cases import Case

_BY_OTHER_RULES = {"ST-DLEDGER", "ST-EPOCHS", "ST-ONE-PATH", "ST-ROCKSDB", "ST-UNCONFIRMED"}
FILES = 14
TIME = TinyLog.time_ms


def is_not_predicted(damage: Case) -> bool:
    """Tell whether a case's store recovers by rules that are not followed: its prediction is refused."""
    return damage.code in _BY_OTHER_RULES or "rocksdbCQDoubleWriteEnable=true" in damage.properties


@dataclass(frozen=True)
class Row:
    """A state of the store, and the number of the file that each release begins with.

    Attributes:
        name: what it shows.
        prepare: makes the state.
        first: the file's number by release; a release that is not named does as the one before it. Empty for
            what is more than a choice of file.
        given: settings of the broker.
    """

    name: str
    prepare: Callable[[TinyLog], object]
    first: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)


def _zero_time(log: TinyLog) -> object:
    return log.overwrite(13 * FILE_BYTES + 56, bytes(8))


def _flip_body(log: TinyLog) -> object:
    return log.overwrite(13 * FILE_BYTES + 88, b"B")


CLEAN = (
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

UNCLEAN = (
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


def _queue_without_last_units(log: TinyLog) -> object:
    """A queue whose last file is made and has no unit yet: as after a crash at the edge of a file."""
    return log.queue(8).queue_file(8 * 20, b"")


OTHER_CLEAN = (
    Row("an empty last queue file", _queue_without_last_units),
    Row("a queue longer than the log", lambda log: log.queue().overwrite(13 * FILE_BYTES, bytes(8))),
    Row("a BLANK of a negative size", lambda log: log.overwrite(log.blank_at(9), b"\x80\x00\x00\x44")),
)

OTHER_UNCLEAN = (
    Row("an empty last queue file", _queue_without_last_units),
    Row("a BLANK of a negative size", lambda log: log.overwrite(log.blank_at(9), b"\x80\x00\x00\x44")),
    Row(
        "accelerated, within a file",
        lambda log: log.queue(18).checkpoint(physic=TIME(27), logics_offset=log.offsets[17]),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, where a file begins",
        lambda log: log.queue(18).checkpoint(physic=TIME(27), logics_offset=log.offsets[18]),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, not where a record begins",
        lambda log: log.queue(18).checkpoint(physic=TIME(27), logics_offset=log.offsets[17] + 1),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, before the window",
        lambda log: log.queue().checkpoint(physic=TIME(27), logics_offset=log.offsets[5]),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, in a file that does not match",
        lambda log: _flip_body(log.queue().checkpoint(physic=TIME(27), logics_offset=log.offsets[27])),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, without the offset",
        lambda log: log.queue().checkpoint(physic=TIME(27), logics=TIME(27)),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "accelerated, without a checkpoint",
        lambda log: log.queue(),
        given={"enableAcceleratedRecovery": "true"},
    ),
    Row(
        "a PHYSICALOFFSET outside its file",
        lambda log: _move(log.queue().checkpoint(physic=TIME(27), logics=TIME(27)), 26, FILE_BYTES),
        given={"checkCommitLogOffsetOnRecover": "true"},
    ),
    Row(
        "a PHYSICALOFFSET where its file ends",
        lambda log: _move(log.checkpoint(logics_offset=log.offsets[20]), 21, FILE_BYTES - RECORD_BYTES),
        given={"checkCommitLogOffsetOnRecover": "true"},
    ),
    Row(
        "a PHYSICALOFFSET before its file",
        lambda log: _move(log.checkpoint(logics_offset=log.offsets[20]), 25, -FILE_BYTES),
        given={"checkCommitLogOffsetOnRecover": "true"},
    ),
    Row(
        "a PHYSICALOFFSET outside its file that nobody checks",
        lambda log: _move(log.checkpoint(logics_offset=log.offsets[20]), 27, FILE_BYTES),
    ),
)


def _move(log: TinyLog, number: int, distance: int) -> object:
    """Give a message another PHYSICALOFFSET."""
    offset = log.offsets[number]
    return log.overwrite(offset + 28, (offset + distance).to_bytes(8))
