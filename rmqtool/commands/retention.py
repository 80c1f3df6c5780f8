"""``retention``: files that a broker deletes at a time and a fullness of the disk, and their messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rmqtool.errors import EnvironmentFailureError
from rmqtool.retention.deletion import Deletions, FileFate, is_known, retention_words
from rmqtool.times import present_ms

if TYPE_CHECKING:
    from rmqtool.store import Store


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """Deletions of a broker.

    Attributes:
        store: Path of the evidence.
        broker_version: Release whose rules apply.
        at_ms: Time of the broker's runs.
        disk_ratio: Fullness of the disk in percent; None: below every limit.
        settings: The settings that decide.
        next: The next deletions from now on, or from the given time, or why there are none; one sentence.
        prevention: Setting that keeps the log as if no time had passed since its end, past ``next``.
        min_offset: The log's first byte afterwards, a physical offset.
        bytes: Of all deleted files.
        messages: Messages that go, by topic.
        unread: Those of them that a reader has not read yet, by reader.
        files: Files of the log, of queues and of the index.
    """

    schema: ClassVar = "rmqtool.retention/1"
    store: str
    broker_version: str
    at_ms: int
    disk_ratio: float | None
    settings: dict[str, str | int | float | bool | None]
    next: str
    prevention: str
    min_offset: int
    bytes: int
    messages: dict[str, int]
    unread: dict[str, int]
    files: tuple[FileFate, ...]


_SETTINGS = ("fileReservedTime", "deleteWhen", "cleanFileForciblyEnable", "diskMaxUsedSpaceRatio")


def retention_of(store: Store, at_ms: int | None, used: float | None) -> RetentionReport:
    """Return the deletions of a store at a time; None is the next at which a file goes.

    Raises:
        EnvironmentFailureError: Its log is none that is deleted by these rules, or a file cannot be read.
    """
    store.require_log("judge the retention of")
    if not is_known(store):
        known = "retention is known of stores on a disk, without a DLedger log, whose queues are files"
        raise EnvironmentFailureError(f"{store.base}: {known}")
    first = deletions = Deletions(store, present_ms() if at_ms is None else at_ms, used)
    if at_ms is None and not first.count and (due_ms := first.due_ms(0)) is not None:
        deletions = Deletions(store, due_ms, used)
    files = (*deletions.log(), *deletions.derived())
    messages, unread = deletions.messages()
    release = store.settings.release
    settings = store.settings.of_broker(release)
    return RetentionReport(
        store=str(store.base),
        broker_version=release.name,
        at_ms=deletions.at_ms,
        disk_ratio=used,
        settings={name: settings[name].value for name in _SETTINGS},
        next=retention_words(first),
        prevention=first.prevention,
        min_offset=deletions.minimum,
        bytes=sum(file.size_bytes for file in files if file.deleted),
        messages=messages,
        unread=unread,
        files=files,
    )
