"""A reading of the log by evidence, for logs that look odd, and files under the names of others."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqtool.dispatch.policy import DispatchPolicy
from rmqtool.engine import LocalEngine
from rmqtool.formats.message import RECORD_STARTS, TOPIC_LENGTHS
from rmqtool.genuine.disputes import uncover, where
from rmqtool.genuine.evidence import QueueEvidence, mark_contradicted, read_evidence
from rmqtool.genuine.plausibility import JudgedRecords
from rmqtool.genuine.records import Cause, Grounds, LogCopy, read_copy
from rmqtool.kernels.compare import are_among
from rmqtool.kernels.rows import frame_stops
from rmqtool.releases import LENIENT
from rmqtool.scan.gap_walk import GapWalk
from rmqtool.scan.records import Gap, record_at
from rmqtool.store.segments import FileQueue, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmqtool.arrays import Int64s, Rows
    from rmqtool.engine import Engine
    from rmqtool.store import Store


_TRIED = 64  # records of a file, until one is sound
_CHUNK_BYTES, _SEARCHED_BYTES = 64 << 10, 16 << 20
_MAGIC = re.compile(
    b"(?=....(?:%b))" % b"|".join(re.escape(one.to_bytes(4, "big", signed=True)) for one in TOPIC_LENGTHS),
    re.DOTALL,
)
_READ_SO = (
    "{label}: its records name the file that begins at {start}, and none lies where its own name says: read"
    " as that file"
)
_LEFT_OUT = "{label}: none of its records lies where its name says, and another file is read as this one"
_SECOND = (
    "{label}: its records name the file that begins at {start}, and another is read as that one; to recover"
    " from both, make a directory COPY with this file as commitlog/{start:020}, and salvage STORE COPY"
)


def under_own_names(log: FileQueue, file_size: int) -> tuple[FileQueue, tuple[str, ...]]:
    """Return a log whose files lie where their records say, if none of these is where its name says.

    The first file that claims a place has it, unless one with records of its own is there. With the log comes
    a sentence about each file that is read as another, or not as what its records say.
    """
    claimed = ((segment, _claimed(log, segment, file_size)) for segment in log)
    claims = {segment.start: own for segment, own in claimed if own is not None and not _has_own(segment)}
    there, placed = {segment.start: segment for segment in log}, dict[int, Segment]()
    for start, own in claims.items():
        if own not in placed and (own not in there or own in claims or not _has_own(there[own])):
            placed[own] = there[start]
    moved = {segment.start for segment in placed.values()}
    stay = {start: segment for start, segment in there.items() if start not in moved}
    read = {start: replace(segment, start=start) for start, segment in sorted((stay | placed).items())}
    sentences = _misnamed(log, {segment.label: start for start, segment in read.items()}, claims)
    return (replace(log, segments=tuple(read.values())) if placed else log), tuple(sentences)


def _misnamed(log: FileQueue, starts: dict[str, int], claims: dict[int, int]) -> Iterator[str]:
    for segment in log:
        start, own = starts.get(segment.label), claims.get(segment.start)
        if start is not None and start != segment.start:
            yield _READ_SO.format(label=segment.label, start=start)
        elif own in starts.values():
            yield _SECOND.format(label=segment.label, start=own)
        elif start is None:
            yield _LEFT_OUT.format(label=segment.label)


def _claimed(log: FileQueue, segment: Segment, file_size: int) -> int | None:
    """Return where a file begins by one of its first sound records, if that is the place of another file.

    A place that a rotted bit can name, away from the log's other files, takes two records.
    """
    alone, doubted = replace(log, segments=(segment,)), set[int]()
    near = range(log.start - file_size, log.stop + 1)
    for at in islice(_magics(segment), _TRIED):
        record = record_at(alone, at)
        if record is None or not record.body_crc_holds:
            continue
        said = record.head.physical_offset
        own = said - (at - segment.start)
        if own >= 0 and (own - segment.start) % file_size == 0:
            if own in near or own in doubted or (said ^ at).bit_count() != 1:
                return own if own != segment.start else None
            doubted.add(own)
    return None


def _magics(segment: Segment) -> Iterator[int]:
    """Yield the physical offsets at which records may begin, of the first bytes of a file."""
    for position in range(0, min(segment.size_bytes, _SEARCHED_BYTES), _CHUNK_BYTES):
        data = segment.read_at(position, _CHUNK_BYTES + RECORD_STARTS.size, [])
        for match in _MAGIC.finditer(data):
            if match.start() < _CHUNK_BYTES:
                yield segment.start + position + match.start()


def _has_own(segment: Segment) -> bool:
    """Whether any record of a file lies where it says."""
    for part in GapWalk(segment, LENIENT).parts(segment.start, segment.stop):
        if not isinstance(part, Gap) and (part.rows["physical_offset"] == part.rows["log_offset"]).any():
            return True
    return False


class Reading(NamedTuple):
    """A log as the evidence has it.

    Attributes:
        log: its files where their records say.
        false: ``(n,)`` physical offsets of the frames in it that are none.
        undecided: ``(d,)`` of them, those of which nothing decides.
        unplaced: ``(u, 2)`` start and stop of the records that are contradicted, or not borne out, in what
            they say of their queue.
        readable: ``(r, 2)`` places of the other records that are not as stored, and the messages of each.
        copy: its records.
        evidence: what the queues list.
        foreign: labels of its files that are those of another log, and from which physical offset on: their
            records are false from there.
    """

    log: FileQueue
    false: Int64s
    undecided: Int64s
    unplaced: Int64s
    readable: Int64s
    copy: LogCopy
    evidence: QueueEvidence
    foreign: Mapping[str, int]


def reads_all(copy: LogCopy) -> bool:
    """Return whether a broker reads all records of a log that an examiner does: a number may be none."""
    for start, stop in copy.between():
        segment = copy.log.segment_at(start)
        walk = None if segment is None else GapWalk(segment, LENIENT, false=copy.false)
        first = None if walk is None else walk.guess(start, stop)
        for part in () if walk is None or first is None else walk.parts(first, stop):
            if not isinstance(part, Gap) and _has_true(part.rows, copy.false):
                return False
    return True


def _frames(segment: Segment, start: int) -> Int64s:
    """Return where records lie in a file from a place on, be it that its broker reads none, ``(n,)``."""
    parts = GapWalk(segment, LENIENT).parts(segment.start, segment.stop)
    places = [part.rows["log_offset"].copy() for part in parts if not isinstance(part, Gap)]
    found = np.concatenate([np.empty(0, np.int64), *places])
    return found[found >= start]


def _has_true(rows: Rows, false: Int64s) -> bool:
    """Whether any row lies where it says, and is no false frame."""
    is_own = rows["physical_offset"] == rows["log_offset"]
    return bool((is_own & ~are_among(rows["log_offset"], false)).any())


def read_by_evidence(store: Store, log: FileQueue, engine: Engine | None = None) -> Reading:
    """Read a damaged log, on an engine or in threads of its own."""
    file_size = store.settings.commitlog_file_size
    log, _ = under_own_names(log, file_size)
    evidence = read_evidence(store)
    policy = DispatchPolicy.from_settings(store.settings)
    copy = uncover(read_copy(log, policy, engine or LocalEngine(), indexed=True), [evidence])
    mark_contradicted(copy, evidence, store)
    undecided = [aside.start for aside in copy.aside if aside.chosen_by is Grounds.NOTHING]
    judged = JudgedRecords(copy, evidence, from_zero=copy.log.start == 0)
    begins = zip(log, judged.foreign.tolist(), strict=True)
    foreign = {file.label: begin for file, begin in begins if begin < file.stop}
    if foreign:  # its records are none of this log
        frames = (_frames(file, foreign[file.label]) for file in log if file.label in foreign)
        copy = replace(
            where(copy, ~judged.is_foreign), false=np.unique(np.concatenate([copy.false, *frames]))
        )
        judged = JudgedRecords(copy, evidence, from_zero=copy.log.start == 0)
    out = np.isin(judged.cause, (Cause.STALE, Cause.FIELDS))
    out[judged.record_of[judged.unproven & ~copy.units["light"]]] = True
    unplaced = np.stack([judged.places, frame_stops(copy.records)], axis=1)[out]
    messages = np.ones(len(out), np.int64)
    own = ~copy.units["light"]
    messages[judged.record_of[own]] = copy.units["count"][own]
    readable = np.stack([judged.places, messages], axis=1)[copy.damaged & ~out]
    return Reading(
        log,
        copy.false,
        np.array(undecided, np.int64),
        unplaced,
        readable,
        copy,
        evidence,
        foreign,
    )
