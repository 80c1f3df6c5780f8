"""Which index files a broker looks at, by the times in their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.derived.index_files import IndexFile
    from rmqtool.formats.index import Header

LARGEST_LONG = (1 << 63) - 1


def is_time_matched(header: Header, begin_ms: int, end_ms: int) -> bool:
    """Whether a broker walks the chain of a file.

    Java: ``IndexFile#isTimeMatched`` (4.9.8, 5.3.3).
    """
    first, last = header.begin_timestamp_ms, header.end_timestamp_ms
    return (begin_ms < first and end_ms > last) or first <= begin_ms <= last or first <= end_ms <= last


def rules_out(index_file: IndexFile, begin_ms: int | None, end_ms: int | None) -> str | None:
    """Say why a broker would not walk a file's chain; None if it does, or no time is asked for."""
    if index_file.is_short or (begin_ms is None and end_ms is None):
        return None
    header = index_file.header
    begin, end = begin_ms or 0, LARGEST_LONG if end_ms is None else end_ms
    if is_time_matched(header, begin, end):
        return None
    return f"its header says {header.begin_timestamp_ms} to {header.end_timestamp_ms}"
