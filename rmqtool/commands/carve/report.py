"""Results of a carving, and what is missing from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rmqtool.carve.proving import LooseCause
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.store import Origin


@dataclass(frozen=True, slots=True)
class CarvedImage:
    """One image.

    Attributes:
        path: where it is.
        size_bytes: how long it is.
        left_out_bytes: not read, by its map.
        unreadable_bytes: that the disk did not deliver.
        used_bytes: used in the result.
        map: path of its map in the result; None without a result.
    """

    path: str
    size_bytes: int
    left_out_bytes: int
    unreadable_bytes: int
    used_bytes: int
    map: str | None


@dataclass(frozen=True, slots=True)
class CarvedLog:
    """One log.

    Attributes:
        directory: the store root in the result; . for that itself.
        store_hosts: of its records, in the order of their offsets.
        records: how many it has.
        bytes: of these records.
        files: how many files of the log they lie in.
        first_offset: physical offset of the first record.
        end_offset: physical offset after the last one.
        first_stored_ms: the earliest store time.
        last_stored_ms: the latest one.
        file_size: bytes of a file.
        file_size_origin: whether that was given, inferred, or assumed because nothing shows it.
        file_size_doubts: how many BLANKs and records contradict it.
        holes: how many stretches are missing, from its first file's start to the last record's end.
        missing_bytes: how long they are together.
        duplicates: how many more copies of its records there were.
        conflicts: how many records claimed a place that another has; they are kept loose.
        dledger: whether its records stood in entries of DLedger.
    """

    directory: str
    store_hosts: tuple[str, ...]
    records: int
    bytes: int
    files: int
    first_offset: int
    end_offset: int
    first_stored_ms: int
    last_stored_ms: int
    file_size: int
    file_size_origin: Origin
    file_size_doubts: int
    holes: int
    missing_bytes: int
    duplicates: int
    conflicts: int
    dledger: bool


@dataclass(frozen=True)
class CarveReport:
    """The outcome of a carving.

    Attributes:
        images: the images that were searched.
        out: path of the result; None without one.
        logs: the logs found, the one with most records first.
        loose: how many records are in no log, by cause: ``frame`` their lengths do not add up, ``body``
            BODYCRC fails, ``signature`` __CRC32# fails, ``tail`` topic and properties may be another's,
            ``inner`` they lie inside another record, ``conflict`` another has their place, ``straddles``
            they would lie in two files, ``offset`` the records around contradict their place, ``stray``
            too few of their log.
        loose_bytes: how much of them is kept.
        notes: sentences.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.carve/1"
    images: tuple[CarvedImage, ...]
    out: str | None
    logs: tuple[CarvedLog, ...]
    loose: Mapping[str, int]
    loose_bytes: int
    notes: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def records(self) -> int:
        """Return how many records are in logs."""
        return sum(log.records for log in self.logs)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing between the records found, and no useful part is damaged."""
        damaged = any(count for cause, count in self.loose.items() if cause != LooseCause.INNER)
        unreadable = any(image.unreadable_bytes for image in self.images)
        return not (damaged or unreadable or any(log.holes for log in self.logs))

    @property
    def verdict(self) -> str:
        """Return the outcome in a sentence."""
        if not self.logs:
            found = counted(sum(self.loose.values()), "part of a record", "parts of records", spec=",")
            return "No record was found." if not self.loose else f"No whole record was found; {found}."
        told = f"{counted(self.records, 'record', spec=',')} of {counted(len(self.logs), 'log')} found"
        holes = sum(log.holes for log in self.logs)
        missing = sum(log.missing_bytes for log in self.logs)
        if holes:
            told += f", {counted(holes, 'hole')} of {missing:,} bytes between them"
        loose = sum(count for cause, count in self.loose.items() if cause != LooseCause.INNER)
        return told + (f"; {loose:,} more in no log." if loose else ".")

    @property
    def hint(self) -> str:
        """Return what to do next; empty without a result."""
        if self.out is None or not self.logs:
            return ""
        return f"To sum it up: rmqtool topics {self.out}, then rmqtool verify {self.out} --level 1."

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 1 if no log was found, 5 if a part of one is missing, else 0."""
        if FailOn(fail_on) is FailOn.NEVER:
            return ExitStatus.CLEAN
        if not self.logs:
            return ExitStatus.NEGATIVE
        return ExitStatus.CLEAN if self.is_whole else ExitStatus.LOG_DAMAGED
