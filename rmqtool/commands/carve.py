"""``carve``: records out of raw bytes without names, as the logs they were; see ``rmqtool.carve``."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rmqtool.carve.images import (
    UNREADABLE,
    USED,
    Image,
    SearchResult,
    length_of,
    map_lines,
    open_image,
    search,
)
from rmqtool.carve.layout import Layout, LogLayout, lay_out
from rmqtool.carve.proving import LooseCause
from rmqtool.carve.writing import (
    ENTRIES_DIRECTORY,
    LOG_DIRECTORY,
    FileTask,
    HashedFile,
    names_of_hosts,
    write_log_file,
    write_loose,
)
from rmqtool.check.digests import manifest_lines
from rmqtool.engine import Engine, EngineOptions
from rmqtool.engine.choice import open_engine
from rmqtool.errors import ExitStatus, UsageError
from rmqtool.findings import FailOn, counted
from rmqtool.io.location import refuse_same_device
from rmqtool.kernels.rows import frame_stops
from rmqtool.progress import Progress, stage_of, timed
from rmqtool.projection import json_object
from rmqtool.store import Origin
from rmqtool.store.kinds import looks_like_store
from rmqtool.store.results import CARVE_REPORT
from rmqtool.store.staging import StagingArea, StagingHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rmqtool.io import Location


@dataclass(frozen=True, slots=True)
class CarvedImage:
    """One image.

    Attributes:
        path: where it is.
        size_bytes: how long it is.
        unreadable_bytes: that the disk did not deliver.
        used_bytes: used in the result.
        map: path of its map in the result; None without a result.
    """

    path: str
    size_bytes: int
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
        dledger: whether records stood in entries of DLedger: they are in ``dledger-carved/data/``.
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


MANIFEST = "carve/SHA256SUMS"
_LEVELS_TO_A_ROOT = 3


@dataclass(frozen=True)
class CarveRequest:
    """A request to carve images, files or block devices; without ``out`` only to search.

    Without ``file_size``, in bytes, it is inferred; with ``one_log`` all store hosts are those of one broker.
    """

    images: Sequence[Location]
    out: Path | None = None
    file_size: int | None = None
    one_log: bool = False
    engine: EngineOptions = field(default_factory=lambda: EngineOptions("local"))


def carve(request: CarveRequest, progress: Progress) -> CarveReport:
    """Carve images."""
    if request.file_size is not None and not 0 < request.file_size < 2**31:
        raise UsageError(f"{request.file_size} bytes is not a size of a commit log's files: 1 to {2**31 - 1}")
    images = [open_image(number, place) for number, place in enumerate(request.images)]
    if request.out is None:
        return _carved(request, images, None, progress)
    for image in images:
        refuse_same_device(image.location, request.out)
    with StagingArea(request.out, _evidence(images)) as area:
        report = _carved(request, images, area.handle, progress)
        if report.out is not None:
            area.publish()
        return report


def _evidence(images: Iterable[Image]) -> Iterator[Path]:
    """Yield the places into which nothing may be written: images, and stores that they are files of."""
    for image in images:
        place = image.location
        yield Path(place.text)
        for _ in range(_LEVELS_TO_A_ROOT):
            place = place.parent
            if looks_like_store(place):
                yield Path(place.text)


def _carved(
    request: CarveRequest, images: Sequence[Image], staging: StagingHandle | None, progress: Progress
) -> CarveReport:
    seconds: dict[str, float] = {}
    with open_engine(request.engine) as engine:
        with timed(seconds, "search"):
            progress.stage("search", sum(image.size_bytes for image in images))
            result = search(images, engine, progress.advance)
        with timed(seconds, "layout"):
            progress.stage("layout", None)
            layout = lay_out(result.rows, images, request.file_size, one_log=request.one_log)
        if staging is None or not (layout.logs or len(layout.loose)):
            return _report(images, result, layout, None, seconds)
        with timed(seconds, "write"):
            written = _write(staging, layout, images, engine, progress)
            written += _write_maps(staging, images, result, layout)
    report = _report(images, result, layout, str(request.out), seconds)
    text = json.dumps(json_object(report), indent=1) + "\n"
    written.append(_write_text(staging, CARVE_REPORT, [text]))
    _write_text(staging, MANIFEST, manifest_lines(written))
    return report


def _directory(number: int) -> str:
    return "." if number == 0 else f"log-{number + 1}"


def _write(
    staging: StagingHandle, layout: Layout, images: Sequence[Image], engine: Engine, progress: Progress
) -> list[tuple[str, str]]:
    tasks = []
    for number, log in enumerate(layout.logs):
        above = "" if number == 0 else f"{_directory(number)}/"
        for start in log.file_starts:
            directory = ENTRIES_DIRECTORY if log.is_of_entries(start) else LOG_DIRECTORY
            label = f"{above}{directory}/{start:020d}"
            size, rows = log.geometry.file_size, log.records_of(start)
            tasks.append(FileTask(staging, label, start, size, rows, tuple(images)))
    advance = stage_of(progress, "write", (task.size_bytes for task in tasks))
    written = engine.map(write_log_file, tasks, advance)
    return written + write_loose(staging, layout, images)


def _map_label(image: Image) -> str:
    return f"carve/image-{image.number + 1}.map"


def _write_maps(
    staging: StagingHandle, images: Sequence[Image], result: SearchResult, layout: Layout
) -> Iterator[tuple[str, str]]:
    for image, used, unreadable in zip(images, layout.used, result.unreadable, strict=True):
        parts = [(UNREADABLE, unreadable), (USED, used)]
        yield _write_text(staging, _map_label(image), map_lines(image.size_bytes, parts))


def _write_text(staging: StagingHandle, label: str, lines: Iterable[str]) -> tuple[str, str]:
    with staging.create_file(label) as file:
        hashed = HashedFile(file, label)
        for line in lines:
            hashed.put(line.encode("utf-8", "surrogateescape"))
        return hashed.finish()


def _report(
    images: Sequence[Image], result: SearchResult, layout: Layout, out: str | None, seconds: dict[str, float]
) -> CarveReport:
    carved = tuple(
        CarvedImage(
            path=str(image.location),
            size_bytes=image.size_bytes,
            unreadable_bytes=length_of(bad),
            used_bytes=length_of(used),
            map=None if out is None else _map_label(image),
        )
        for image, used, bad in zip(images, layout.used, result.unreadable, strict=True)
    )
    logs = tuple(_log(number, log, images) for number, log in enumerate(layout.logs))
    return CarveReport(
        images=carved,
        out=out,
        logs=logs,
        loose=dict(Counter(str(cause) for cause in sorted(layout.causes))),
        loose_bytes=int(layout.loose["total_size"].sum()),
        notes=tuple(_notes(logs)),
        seconds=seconds,
    )


def _log(number: int, log: LogLayout, images: Sequence[Image]) -> CarvedLog:
    rows, holes = log.rows, log.holes
    return CarvedLog(
        directory=_directory(number),
        store_hosts=tuple(names_of_hosts(rows, images)),
        records=len(rows),
        bytes=int(rows["total_size"].sum()),
        files=len(log.file_starts),
        first_offset=int(rows["log_offset"][0]),
        end_offset=int(frame_stops(rows[-1])),
        first_stored_ms=int(rows["store_timestamp_ms"].min()),
        last_stored_ms=int(rows["store_timestamp_ms"].max()),
        file_size=log.geometry.file_size,
        file_size_origin=log.geometry.origin,
        file_size_doubts=log.geometry.contradicting + log.geometry.straddling,
        holes=len(holes),
        missing_bytes=length_of(holes),
        duplicates=log.duplicates,
        conflicts=log.conflicts,
        dledger=any(map(log.is_of_entries, log.file_starts)),
    )


def _notes(logs: Sequence[CarvedLog]) -> Iterator[str]:
    for log in logs:
        name = log.directory
        if log.file_size_origin is Origin.DEFAULT:
            yield (
                f"{name}: no evidence of the size of this log's files; {log.file_size} bytes are"
                " assumed, a broker's default: give -p mappedFileSizeCommitLog=BYTES if yours differ"
            )
        elif log.file_size_doubts:
            yield (
                f"{name}: {log.file_size_doubts} BLANKs and records contradict files of {log.file_size}"
                " bytes: check them, and pass -p mappedFileSizeCommitLog=BYTES"
            )
        if log.dledger:
            yield (
                f"{name}: records stood in entries of DLedger, and are in {ENTRIES_DIRECTORY}/ without the"
                " headers of these: rmqtool salvage makes a plain store of them"
            )
    for earlier, later in _continued(logs):
        yield (
            f"{later.directory} may be {earlier.directory} under another store host: its offsets and times "
            "continue there; --one-log joins them"
        )


def _continued(logs: Sequence[CarvedLog]) -> Iterator[tuple[CarvedLog, CarvedLog]]:
    """Yield pairs of logs of different hosts that may be one."""
    ordered = sorted(logs, key=lambda log: (log.first_offset, log.first_stored_ms))
    for earlier, later in itertools.pairwise(ordered):
        apart = not set(earlier.store_hosts) & set(later.store_hosts)
        goes_on = 0 <= later.first_offset - earlier.end_offset <= earlier.file_size
        if apart and goes_on and earlier.last_stored_ms <= later.first_stored_ms:
            yield earlier, later


__all__ = ["CarveReport", "CarveRequest", "CarvedImage", "CarvedLog", "carve"]
