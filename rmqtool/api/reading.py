"""How requests to read rows are made of a caller's arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rmqtool import rows
from rmqtool.api.arguments import check_least, filter_of
from rmqtool.commands.dump import ROW_TYPES, DumpRequest, dump
from rmqtool.errors import UsageError
from rmqtool.findings import Severity
from rmqtool.formats.message import INNER_BATCH_FLAG
from rmqtool.rows.bodies import COMPRESSED_FLAG, decompressed, with_inner_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from rmqtool.api.arguments import Time
    from rmqtool.columns.names import ColumnChoice
    from rmqtool.progress import Progress
    from rmqtool.store import PathKind
    from rmqtool.store import Store as StoreFiles

OnCorrupt = Literal["resync", "stop", "fail"]


@dataclass(frozen=True)
class Reading:
    """Rows that are wanted of a store.

    Attributes:
        request: Which.
        decompress: Whether bodies are unpacked.
        unpack_batches: Whether the messages of inner batches become rows.
    """

    request: DumpRequest
    decompress: bool = False
    unpack_batches: bool = False

    def columns(self, store: StoreFiles, progress: Progress, choice: ColumnChoice) -> Iterator[rows.Row]:
        """Return the same as `rows`, messages as columns.

        Raises:
            UsageError: A filter cannot be applied to what the store shows.
        """
        from rmqtool.columns.encoder import filled

        wanted = replace(self, request=replace(self.request, columns=choice), decompress=False)
        return filled(wanted.rows(store, progress), choice)

    def rows(self, store: StoreFiles, progress: Progress) -> Iterator[rows.Row]:
        """Return the rows; a batch is unpacked from the body as stored.

        Raises:
            UsageError: A filter cannot be applied to what the store shows.
        """
        odd_flags = COMPRESSED_FLAG * self.decompress | INNER_BATCH_FLAG * self.unpack_batches
        found = dump(store, replace(self.request, odd_flags=odd_flags), progress)
        if self.unpack_batches:
            found = with_inner_messages(found, self.request.messages)
            if self.request.row_types and "message" not in self.request.row_types:
                found = (row for row in found if not isinstance(row, rows.Message))
        if self.decompress:
            found = decompressed(found, progress)
        return _up_to_error(found) if self.request.on_corrupt == "fail" else found


def _up_to_error(found: Iterator[rows.Row]) -> Iterator[rows.Row]:
    for row in found:
        yield row
        if isinstance(row, rows.Damage) and row.severity is Severity.ERROR:
            return


def reading_of(
    zone: tzinfo | None,
    kinds: frozenset[PathKind],
    *,
    topic: str | Iterable[str] | None,
    queue: int | None,
    tag: str | None,
    key: str | None,
    begin: Time | None,
    end: Time | None,
    from_offset: int | None,
    to_offset: int | None,
    from_queue_offset: int | None,
    on_corrupt: OnCorrupt,
    decompress: bool,
    unpack_batches: bool = False,
    slots: bool = False,
    chains: bool = False,
    hex: bool = False,
    lines: str | None = None,
    row_types: frozenset[str] = frozenset(),
) -> Reading:
    """Return what a caller's arguments ask for: see `Store.dump`.

    Raises:
        UsageError: A time is none, an offset is negative, or a word is none of those there are.
    """
    check_least(0, from_offset=from_offset, to_offset=to_offset)
    unknown = sorted(row_types - ROW_TYPES.keys())
    if unknown:
        raise UsageError(f"--rows {', '.join(unknown)}: give {', '.join(ROW_TYPES)}")
    if on_corrupt not in {"resync", "stop", "fail"}:
        raise UsageError(f"--on-corrupt {on_corrupt!r}: give resync, stop or fail")
    wanted = filter_of(
        zone,
        topic=topic,
        queue=queue,
        tag=tag,
        key=key,
        begin=begin,
        end=end,
        from_queue_offset=from_queue_offset,
        inside_batches=unpack_batches,
    )
    request = DumpRequest(
        kinds,
        wanted,
        from_offset=from_offset,
        to_offset=to_offset,
        on_corrupt=on_corrupt,
        slots=slots,
        chains=chains,
        hex=hex,
        lines=lines,
        row_types=row_types,
    )
    return Reading(request, decompress, unpack_batches)
