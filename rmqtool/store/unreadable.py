"""Findings about ranges that the disk could not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Finding, Structure
from rmqtool.findings.places import IO_DENIED, IO_UNREADABLE
from rmqtool.store.listing import label_of
from rmqtool.store.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.errors import DeniedError
    from rmqtool.io import Location
    from rmqtool.io.reading import UnreadableRange
    from rmqtool.store.segments import StoreFile


def denied_finding(failure: DeniedError, base: Location) -> Finding:
    """Return the finding about a file or directory that this user may not read."""
    return Finding(code=IO_DENIED, file=label_of(base.elsewhere(failure.path), base), message=failure.reason)


def unreadable_findings(
    file: StoreFile, ranges: Iterable[UnreadableRange], structure: Structure
) -> Iterator[Finding]:
    """Yield a finding for each range read as zeros; those about the log carry the physical offset."""
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
