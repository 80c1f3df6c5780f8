"""Ranges that the disk could not deliver, as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Structure
from rmqtool.findings.places import IO_UNREADABLE
from rmqtool.store.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.io.reading import UnreadableRange
    from rmqtool.store.segments import StoreFile


def unreadable_findings(
    file: StoreFile, ranges: Iterable[UnreadableRange], structure: Structure
) -> Iterator[Finding]:
    """Yield a finding for each range of a file that was read as zeros.

    Args:
        file: The file; a segment of the commit log also tells the physical offset.
        ranges: What `StoreFile.read_into` reported.
        structure: The part of the store that is damaged by it.
    """
    start = file.start if isinstance(file, Segment) and structure is Structure.COMMITLOG else None
    for bad in ranges:
        yield Finding(
            code=IO_UNREADABLE,
            file=file.label,
            position=bad.position,
            length=bad.length,
            physical_offset=None if start is None else start + bad.position,
            message=f"{file.label}: {bad.length} bytes at position {bad.position} cannot be read",
            structure_override=structure,
        )
