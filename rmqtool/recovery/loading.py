"""Loading of a directory by a broker: what it accepts, and what makes it refuse to start.

Origin: ``MappedFileQueue#doLoad``, ``DefaultMessageStore#loadConsumeQueue`` (4.9.8),
``ConsumeQueueStore#loadConsumeQueues`` (5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.io import FileKind, Location, Status
from rmqtool.javacompat import parse_int, parse_long
from rmqtool.recovery.model import Refusal
from rmqtool.scan.classify import PAGE_BYTES
from rmqtool.store.names import label_of
from rmqtool.store.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.releases import Release


NO_NUMBER = "is not named by a number"
"""Reason to refuse a file of the right size."""


@dataclass
class LoadedFiles:
    """The files of one file queue, as the broker has them in memory; ``deleted`` are labels by start."""

    segments: list[Segment] = field(default_factory=list)
    deleted: dict[int, str] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)


@dataclass
class LoadedQueue:
    """A queue's directory; ``queue_id`` is the number in its name."""

    topic: str
    queue_id: int
    files: LoadedFiles


def load_files(directories: Iterable[Location], base: Location, size: int, release: Release) -> LoadedFiles:
    """Load the files of one file queue; all reasons to refuse are named, the broker stops at the first.

    There are several directories for a commit log on several paths. ``size`` is the configured bytes of a
    file.
    """
    loaded = LoadedFiles()
    entries = sorted(
        ((path / name, status) for path in directories for name, status in path.entries()),
        key=lambda one: one[0].name,
    )
    for number, (path, status) in enumerate(entries):
        label, size_bytes = label_of(path, base), status.size_bytes
        if release.deletes_empty_last_file and status.kind is FileKind.DIRECTORY:
            continue
        if release.deletes_empty_last_file and size_bytes == 0 and number == len(entries) - 1:
            loaded.deleted[parse_long(path.name) or 0] = label
            continue
        reason = _refusal_reason(path, status, size)
        if reason is None:
            loaded.segments.append(Segment(path, label, size_bytes, parse_long(path.name) or 0))
        else:
            loaded.refusals.append(Refusal(label, reason))
    return loaded


def _refusal_reason(path: Location, status: Status, size: int) -> str | None:
    size_bytes = status.size_bytes
    if status.kind is FileKind.DIRECTORY:
        return "is a directory"
    if size_bytes != size:
        grown = size_bytes == -(-size // PAGE_BYTES) * PAGE_BYTES
        cause = ", as writeWithoutMmap of 5.5.0 and later leaves a full file: cut it back" if grown else ""
        return f"has {size_bytes} bytes instead of {size}{cause}"
    return NO_NUMBER if parse_long(path.name) is None else None


def load_queues(directory: Location, base: Location, size: int, release: Release) -> list[LoadedQueue]:
    """Load all queues of a tree ``TOPIC/QUEUEID``; entries with other names are skipped."""
    return [
        LoadedQueue(topic, number, load_files((directory / topic / name,), base, size, release))
        for topic, _ in directory.entries()
        for name, _ in (directory / topic).entries()
        if (number := parse_int(name)) is not None
    ]
