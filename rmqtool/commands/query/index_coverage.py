"""How much of the log the index files cover, and which messages with keys lie beside that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.derived.index_files import IndexFile
from rmqtool.formats.message import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rmqtool.lookup.explain import Reason
from rmqtool.lookup.peek import peek_after
from rmqtool.rows.messages import keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.formats.index import Header
    from rmqtool.lookup.context import QueryContext
    from rmqtool.scan.records import Record
    from rmqtool.store import Store


def is_indexed(record: Record) -> bool:
    """Whether a broker puts a record into the index.

    Java: ``IndexService#buildIndex`` (4.9.8, 5.3.3).
    """
    return not is_rolled_back(record) and bool(keys_of(record))


def is_rolled_back(record: Record) -> bool:
    """Whether the record says that its transaction was rolled back."""
    return record.head.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK


def coverage(store: Store) -> tuple[int, int] | None:
    """Return physical offsets of the first and the last indexed message; None without items."""
    headers: list[Header] = []
    for file in store.index_files:
        index_file = IndexFile(file, store.settings.index_geometry)
        file.close()
        if index_file.has_items:
            headers.append(index_file.header)
    if not headers:
        return None
    return min(one.begin_phy_offset for one in headers), max(one.end_phy_offset for one in headers)


class IndexCoverage:
    """Goes along with a search through the index files, newest first, and tells what lies between them.

    A broker indexes every message once, in the order of the log: where one file ends the next begins, and
    between the two, before the first and after the last there is no message with keys.

    Args:
        context: The question that is searched for.
    """

    def __init__(self, context: QueryContext) -> None:
        self._context = context
        self._log = context.store.commitlog
        self._newer: tuple[str, int] | None = None

    def pass_file(self, index_file: IndexFile) -> None:
        """Look at what lies after a file and before the newer one."""
        header, label = index_file.header, index_file.file.label
        if index_file.last_item == 0:
            return
        end = header.end_phy_offset
        if self._newer is None:
            self._look_behind_all(end)
        else:
            self._look_between(label, end, *self._newer)
        self._newer = label, header.begin_phy_offset

    def finish(self) -> None:
        """Look at what lies before the oldest file."""
        start = self._log.start - 1
        if self._newer is None:
            self._look(Reason.INDEX_BEHIND, "the index files hold nothing", None, start, None)
            return
        begin = self._newer[1]
        what = f"the index begins with log offset {begin}"
        self._look(Reason.INDEX_BEGINS_LATER, what, begin, start, begin)

    def _look_behind_all(self, end: int) -> None:
        self._look(Reason.INDEX_BEHIND, f"the index goes up to log offset {end}", end, end, None)

    def _look(self, reason: Reason, what: str, edge: int | None, start: int, stop: int | None) -> None:
        """Look beyond an edge of what the index covers."""
        look = peek_after(self._log, start, stop, is_indexed)
        self._tell(reason, what, look.record, {"physicalOffset": edge})
        if look.record is None and not look.is_complete:
            message = f"{what}: what lies beyond is not indexed, or has no keys"
            self._context.explanation.add(reason, message, physicalOffset=edge)

    def _look_between(self, label: str, end: int, newer: str, begin: int) -> None:
        facts = {"physicalOffset": end, "nextPhysicalOffset": begin}
        if end > begin:
            message = f"{label} ends with log offset {end}, and {newer} begins with {begin}"
            self._context.explain_doubt(Reason.INDEX_GAP, message, label, **facts)
            return
        look = peek_after(self._log, end, begin, is_indexed)
        what = f"{label} goes up to log offset {end}, {newer} begins with {begin}"
        self._tell(Reason.INDEX_GAP, what, look.record, facts)

    def _tell(self, reason: Reason, what: str, lost: Record | None, facts: Mapping[str, int | None]) -> None:
        if lost is None:
            return
        offset = lost.physical_offset
        message = f"{what}: the message at log offset {offset} has keys and is not indexed"
        self._context.explain_doubt(reason, message, None, unindexedPhysicalOffset=offset, **facts)
