"""Why hits of an index or a queue are no answers: counted while they are judged, told in one sentence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rmqtool.findings.wording import counted
from rmqtool.lookup.explain import Reason
from rmqtool.store.listing import digits_of
from rmqtool.store.segments import NAME_DIGITS
from rmqtool.times import time_text

if TYPE_CHECKING:
    from rmqtool.store import Store, Stray

_WORDS = {
    Reason.COLLISION: "of other keys with the same hash",
    Reason.OTHER_KIND: "by another kind of key",
    Reason.WRONG_RECORD: "where another message lies",
    Reason.NO_RECORD: "where no record lies",
    Reason.EXPIRED: "expired",
    Reason.LOG_MISSING: "where a file of the log is missing",
    Reason.RECORD_OUT_OF_TIME: "stored outside of --begin and --end",
}


class LeftOut:
    """What was met and is no answer.

    Args:
        store: The store.

    Attributes:
        lost: Physical offsets of hits whose file of the log is not there.
        absent: Physical offsets of hits in files of the log at which no record lies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[Reason] = Counter()
        self._times_ms: tuple[int, int] | None = None
        self.lost: list[int] = []
        self.absent: list[int] = []

    def add(self, reason: Reason, physical_offset: int) -> None:
        """Count a hit."""
        if reason in _WORDS:
            self._counts[reason] += 1
        if reason is Reason.LOG_MISSING:
            self.lost.append(physical_offset)
        elif reason is Reason.NO_RECORD and self._store.commitlog.segment_at(physical_offset) is not None:
            self.absent.append(physical_offset)

    def add_time(self, time_ms: int) -> None:
        """Count a message that would answer, had it been stored between the times."""
        first, last = self._times_ms or (time_ms, time_ms)
        self._times_ms = min(first, time_ms), max(last, time_ms)
        self._counts[Reason.RECORD_OUT_OF_TIME] += 1

    def __str__(self) -> str:
        return ", ".join(f"{count} {_WORDS[reason]}" for reason, count in self._counts.items())

    @property
    def outside(self) -> str | None:
        """Say when messages were stored that answer but for their time; None if there are none."""
        if self._times_ms is None:
            return None
        count = self._counts[Reason.RECORD_OUT_OF_TIME]
        first, last = map(time_text, self._times_ms)
        when = f"at {first}" if first == last else f"from {first} to {last}"
        number = counted(count, "message that answers was", "messages that answer were")
        return f"{number} stored outside of --begin and --end: {when}"

    def absence(self, physical_offset: int) -> tuple[Reason, str]:
        """Say why there is no record at an offset."""
        log = self._store.commitlog
        if self.missing_part(physical_offset) is not None:
            return Reason.LOG_MISSING, "the file of the log that held it is missing"
        if 0 <= physical_offset < log.start:
            return Reason.EXPIRED, f"expired, the log begins at {log.start}"
        why = "the log ends before" if physical_offset >= log.stop else "no record lies there"
        return Reason.NO_RECORD, why

    def missing_part(self, physical_offset: int) -> str | None:
        """Say which part of the log is missing around an offset; None if it is there, or expired."""
        log = self._store.commitlog
        if physical_offset < 0 or physical_offset >= log.stop or log.segment_at(physical_offset) is not None:
            return None
        strays = [one for one in log.strays if self._may_hold(one, physical_offset)]
        if strays:
            return "; ".join(f"{one.label} {one.reason}" for one in strays)
        return None if physical_offset < log.start else f"no file holds log offset {physical_offset}"

    def _may_hold(self, stray: Stray, physical_offset: int) -> bool:
        """Whether an entry that is no file of the log was one, by its name or by its size."""
        if not stray.size_bytes:
            start = digits_of(stray.label.rpartition("/")[2], NAME_DIGITS)
            size = self._store.settings.commitlog_file_size
            return start is not None and start <= physical_offset < start + size
        return stray.size_bytes == self._store.settings.commitlog_file_size
