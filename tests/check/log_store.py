"""A log of real files, edited byte by byte, and its check at any split size."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.check.log import LogCheck, LogResult, check_log
from rmqtool.formats import message
from rmqtool.io import location_of
from rmqtool.progress import NullProgress
from rmqtool.scan.log_pass import SPLIT_BYTES
from rmqtool.store.segments import FileQueue, Segment
from tests.builders import POLICY_5, InlineEngine, properties, staging
from tests.scan.log_builder import STORE_TIMESTAMP_MS, blank, record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

    from rmqtool.dispatch.policy import DispatchPolicy
    from rmqtool.findings import Finding

FILE_SIZE = 4096
AT = message.HEAD_OFFSETS[0]


@dataclass
class Log:
    """A log under construction: files of ``FILE_SIZE`` bytes, queue offsets and store times that go up.

    Attributes:
        data: the bytes of all files.
        places: physical offset of every record.
        stored_ms: store time of the next record.
    """

    data: bytearray = field(default_factory=bytearray)
    places: list[int] = field(default_factory=list)
    stored_ms: int = STORE_TIMESTAMP_MS
    _next: dict[tuple[bytes, int], int] = field(default_factory=dict)

    def add(self, **fields: Any) -> int:  # noqa: ANN401 - any field of the schema
        """Append a record; return its physical offset."""
        topic, queue_id = fields.get("topic", b"TopicTest"), fields.get("queueId", 0)
        offset = fields.get("queueOffset", self._next.get((topic, queue_id), 0))
        self._next[topic, queue_id] = offset + 1
        values = {"queueOffset": offset, "storeTimestamp": self.stored_ms} | fields
        self.stored_ms += 1
        room = FILE_SIZE - len(self.data) % FILE_SIZE
        if len(record(0, **values)) + 8 > room:
            self.data += blank(room)
        place = len(self.data)
        self.data += record(place, **({"physicalOffset": place} | values))
        self.places.append(place)
        return place

    def fill(self, records: int, body_bytes: int = 60) -> Self:
        """Append records over three queues."""
        for number in range(records):
            self.add(queueId=number % 3, body=bytes([65 + number % 26]) * body_bytes)
        return self

    def put(self, place: int, data: bytes) -> None:
        """Overwrite bytes."""
        self.data[place : place + len(data)] = data

    def number(self, place: int, name: str, value: int, width: int = 4) -> None:
        """Overwrite a field of the record at ``place``."""
        self.put(place + AT[name], value.to_bytes(width, "big", signed=True))

    def write(self, folder: Path, tail: bytes = b"") -> FileQueue:
        """Write the files, the last one filled up with zeros after ``tail``."""
        folder.mkdir(parents=True, exist_ok=True)
        data = bytes(self.data) + tail
        data += bytes(-len(data) % FILE_SIZE)
        return write_files(
            folder, {start: data[start : start + FILE_SIZE] for start in range(0, len(data), FILE_SIZE)}
        )


def write_files(folder: Path, files: dict[int, bytes]) -> FileQueue:
    """Write the files of a log by their start."""
    segments = []
    for start, data in sorted(files.items()):
        path = folder / f"{start:020d}"
        path.write_bytes(data)
        segments.append(Segment(location_of(path), f"commitlog/{path.name}", len(data), start))
    return FileQueue((location_of(folder),), tuple(segments))


@dataclass(frozen=True)
class Verdict:
    """What a check said, fit to be compared with another one."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]
    status: int
    records: int
    log_end: int
    units: dict[tuple[str, int], int]

    def codes(self, severity: str = "error") -> set[str]:
        return {one.code.code for one in self.findings if one.severity.value == severity}

    def of(self, code: str) -> list[Finding]:
        return [one for one in self.findings if one.code.code == code]


def verdict_of(result: LogResult) -> Verdict:
    """Take what can be compared."""
    return Verdict(
        tuple(result.findings),
        result.findings.counts,
        int(result.findings.exit_status()),
        result.examined.records,
        result.log_end,
        {(plan.topic, plan.queue_id): plan.units for plan in result.plans},
    )


def check(
    log: FileQueue,
    *,
    split_bytes: int = SPLIT_BYTES,
    policy: DispatchPolicy = POLICY_5,
    live: bool = False,
    unclean: bool = False,
    max_findings: int = 100,
    half_offsets: Mapping[int, int] | None = None,
) -> Verdict:
    """Check a log."""
    with staging() as handle:
        asked = LogCheck(log, policy, handle, max_findings, live, unclean, split_bytes, half_offsets)
        return verdict_of(check_log(asked, InlineEngine(), NullProgress()))


def check_at_any_split(log: FileQueue, **options: Any) -> Verdict:  # noqa: ANN401 - as of check
    """Check a log as one piece, and see that no cut shows in the result."""
    whole = check(log, **options)
    for split_bytes in (2048, 700, 97):
        cut = check(log, split_bytes=split_bytes, **options)
        assert cut == whole, f"cut into {split_bytes}"
    return whole


def with_record_crc(place: int, **fields: Any) -> bytes:  # noqa: ANN401 - any field of the schema
    """Build a record that ends in the property ``__CRC32#``, as 5.2.0+ writes it."""
    empty = properties({"KEYS": "k"}) + b"\x02__CRC32#\x01" + b"0" * 10 + b"\x02"
    raw = record(place, properties=empty, **fields)
    digits = str(zlib.crc32(raw[:-20]) & 0x7FFFFFFF)[::-1].ljust(10, "0")
    return raw[:-11] + digits.encode() + b"\x02"
