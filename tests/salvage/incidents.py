"""The six incidents: what befell real logs, as edits of a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.broker.log_damage import LogCopy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def bit_rot(root: Path) -> None:
    """Bit rot in a middle segment: three bodies and one length."""
    log = LogCopy(root)
    places = log.records[len(log.records) // 2]
    bodies = [place for place in places[1:] if log.head(place).body_length > 0]
    for place in bodies[:3]:
        log.flip(log.body_at(place), 1)
    log.flip(places[len(places) // 2] + 1, 1)


def lost_segment(root: Path) -> None:
    """A middle segment is lost."""
    log = LogCopy(root)
    log.remove_segment(len(log.segments) // 2)


def zeroed_half(root: Path) -> None:
    """The first half of the last segment reads as zeros."""
    log = LogCopy(root)
    last = max(log.segments)
    end = log.records[-1][-1]
    log.write(last, bytes((end - last) // 2))


def cut_record(root: Path) -> None:
    """The last segment is cut amid a record."""
    log = LogCopy(root)
    path = log.segments[max(log.segments)]
    places = log.records[-1]
    place = places[len(places) // 2]
    with path.open("r+b") as file:
        file.truncate(place - int(path.name) + log.head(place).total_size // 2)


def rot_without_queues(root: Path) -> None:
    """Rot, and queues and index are gone."""
    bit_rot(root)
    drop_queues(root)


def torn_lengths(root: Path) -> None:
    """A block of the second segment is garbage, and so is the BLANK of the first."""
    log = LogCopy(root)
    second = sorted(log.segments)[1]
    log.write(second + 1024, bytes(range(1, 256)) * 4)
    if log.blanks:
        log.flip(log.blanks[0] + 5, 8)


def drop_queues(root: Path) -> None:
    """Queues and index are gone."""
    import shutil

    for name in ("consumequeue", "consumequeue_ext", "batchconsumequeue", "index"):
        shutil.rmtree(root / name, ignore_errors=True)


INCIDENTS: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (bit_rot, lost_segment, zeroed_half, cut_record, rot_without_queues, torn_lengths)
}
