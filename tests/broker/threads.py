"""Stores as threads of RocketMQ's trackers describe them, made from fixtures."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.broker.damaged_states import State
from tests.broker.log_damage import LogCopy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_UNIT = 20


@dataclass(frozen=True)
class Thread:
    """What people met, and what cures it.

    Attributes:
        names: Issues of apache/rocketmq, or REPOSITORY#NUMBER.
        symptom: The beginning of its row in ``rmqtool help incidents``.
        state: The store.
        codes: Findings of ``verify``, among others.
        harm: What is not as it should be after a start on it, of ``Outcome``; none: a start is harmless.
        advised: The action that ``verify`` recommends.
        remedy: The action of the row, which cures it.
        lost: Messages that nothing brings back.
    """

    names: str
    symptom: str
    state: State
    codes: frozenset[str]
    harm: frozenset[str]
    advised: str
    remedy: str
    lost: int = 0


def middle_file_gone(root: Path) -> None:
    """The second of three files is deleted, and nobody knows by whom."""
    log = LogCopy(root)
    log.remove_segment(len(log.segments) // 2)


def illegal_magic(root: Path) -> None:
    """``found a illegal magic code 0x696e4d73``: text where a record begins, in the middle of a file."""
    log = LogCopy(root)
    places = log.records[len(log.records) // 2]
    log.put_magic(places[len(places) // 2], 0x696E4D73)


def last_queue_file_gone(root: Path) -> None:
    """The last file of a queue is deleted."""
    max((root / "consumequeue" / "TopicTest" / "1").iterdir()).unlink()


def shifted_units(root: Path) -> None:
    """One unit is missing in the middle of a queue, and all later ones moved up."""
    files = sorted((root / "consumequeue" / "TopicTest" / "2").iterdir())
    data = b"".join(file.read_bytes() for file in files)
    size, at = len(data) // len(files), 4 * _UNIT
    data = data[:at] + data[at + _UNIT :] + bytes(_UNIT)
    for number, file in enumerate(files):
        file.write_bytes(data[number * size : (number + 1) * size])


def not_dispatched(root: Path) -> None:
    """The last messages before a power cut are in the log, and in no queue."""
    for queue in ("TopicTest/0", "Orders/7", "Payments/0"):
        last = max((root / "consumequeue" / queue).iterdir())
        data = last.read_bytes()
        used = len(data.rstrip(b"\0")) // _UNIT * _UNIT
        last.write_bytes(data[: max(used - 2 * _UNIT, 0)].ljust(len(data), b"\0"))


def head_deleted(root: Path) -> None:
    """Files of the log have expired, the queues that lead there are still whole."""
    log = LogCopy(root)
    for number in sorted(log.segments)[:2]:
        log.segments[number].unlink()


def index_gone(root: Path) -> None:
    """Queries by key find nothing after an unclean start: the index files were deleted."""
    shutil.rmtree(root / "index")
    (root / "index").mkdir()


def older_queues(root: Path) -> None:
    """The log's first file has expired, and the queues are a copy from before all that is left."""
    log = LogCopy(root)
    log.segments[min(log.segments)].unlink()
    later = sorted(log.segments)[1]
    for path in (root / "consumequeue").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            units = [data[at : at + _UNIT] for at in range(0, len(data), _UNIT)]
            kept = [unit for unit in units if int.from_bytes(unit[:8], "big") < later]
            path.write_bytes(b"".join(kept).ljust(len(data), b"\0"))


def short_log_file(root: Path) -> None:
    """A copy of the store was broken off within the last file of the log."""
    log = LogCopy(root)
    last = log.segments[max(log.segments)]
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])


def offsets_given_twice(root: Path) -> None:
    """A slave that was made master counts its queue offsets from an older place: three come a second time."""
    log = LogCopy(root)
    places = [place for segment in log.records for place in segment]
    queue = [
        place
        for place in places
        if log.head(place).queue_id == 3 and log.read(log.topic_at(place), 9) == b"TopicTest"
    ]
    first = len(queue) - 4
    for place in queue[first:]:
        log.put(place, "queueOffset", log.head(place).queue_offset - 3, 8)
    files = sorted((root / "consumequeue" / "TopicTest" / "3").iterdir())
    data = b"".join(file.read_bytes() for file in files)
    units = data[: first * _UNIT] + data[(first + 3) * _UNIT : (first + 4) * _UNIT]
    size, whole = len(data) // len(files), units.ljust(len(data), b"\0")
    for number, file in enumerate(files):
        file.write_bytes(whole[number * size : (number + 1) * size])


def _thread(
    names: str,
    damage: Callable[[Path], None],
    fixture: str,
    codes: str,
    harm: str,
    advised: str,
    *,
    symptom: str,
    remedy: str = "",
    abort: bool | None = None,
    lost: int = 0,
) -> Thread:
    state = State(damage.__name__, names, fixture, abort, damage)
    return Thread(
        names,
        symptom,
        state,
        frozenset(codes.split()),
        frozenset(harm.split()),
        advised,
        remedy or advised,
        lost,
    )


_ORDER = '"logic queue order maybe wrong"'
_IN_THE_LOG = "messages are in the log, and no consumer gets them"
THREADS = [
    *(
        thread
        for store in ("plain-4.9.8", "plain-5.3.3", "plain-5.5.1")
        for thread in (
            _thread(
                "2140 2141",
                middle_file_gone,
                store,
                "CL-GAP CQ-DANGLING",
                "lost",
                "start",
                symptom="a file in the middle of `commitlog/` is missing",
                lost=23,
            ),
            _thread(
                "289 6767 8394",
                illegal_magic,
                store,
                "CL-BAD-MAGIC",
                "lost reused" if store == "plain-4.9.8" else "lost wrong",
                "salvage",
                symptom='"found a illegal magic code"',
                abort=True,
                lost=1,
            ),
            _thread(
                "6570 1127 1397 2593 alibaba/RocketMQ#354",
                shifted_units,
                store,
                "CQ-MISPLACED",
                "wrong unserved reused",
                "repair",
                symptom=_ORDER,
                remedy="rebuild",
            ),
            _thread(
                "7355",
                last_queue_file_gone,
                store,
                "CQ-MISSING-MSG",
                "unserved reused",
                "repair",
                symptom=_IN_THE_LOG,
                remedy="rebuild",
            ),
            _thread(
                "405 467 1434",
                not_dispatched,
                store,
                "CQ-MISSING-MSG",
                "",
                "start",
                symptom=_IN_THE_LOG,
                remedy="rebuild",
                abort=True,
            ),
            _thread(
                "298 alibaba/RocketMQ#164",
                head_deleted,
                store,
                "CQ-MIN-WRONG OF-BEHIND",
                "",
                "start",
                symptom='"Offset not matched. Request offset" after files were deleted',
            ),
            _thread(
                "1613 2784",
                older_queues,
                store,
                "CQ-MISSING-MSG OF-AHEAD",
                "unserved",
                "repair",
                symptom="queues or index were deleted, or belong to an older copy",
                remedy="rebuild",
            ),
            _thread(
                "8007 3868",
                index_gone,
                store,
                "IX-GONE",
                "unindexed",
                "rebuild",
                symptom="no key is found after a crash",
            ),
            _thread(
                "alibaba/RocketMQ#388",
                short_log_file,
                store,
                "CL-STRAY",
                "starts" if store == "plain-4.9.8" else "starts lost",
                "salvage",
                symptom='"length not matched message store config value"',
                lost=0 if store == "plain-4.9.8" else 7,
            ),
        )
    )
]
