"""Request of a dump."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.rows.messages import MessageFilter
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from rmqtool.columns.names import ColumnChoice

_LOG = (PathKind.COMMITLOG,)
_QUEUES = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)
_MESSAGE_FILTERS = ("topic", "queue_id", "tag", "key", "begin_ms", "end_ms", "from_queue_offset")
_WITH_OFFSETS = (PathKind.COMMITLOG, PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE, PathKind.INDEX)

ROW_TYPES = {
    "message": PathKind.COMMITLOG,
    "inner-message": PathKind.COMMITLOG,
    "blank": PathKind.COMMITLOG,
    "unit": PathKind.CONSUMEQUEUE,
    "preblank": PathKind.CONSUMEQUEUE,
    "batch-unit": PathKind.BATCHCONSUMEQUEUE,
    "ext-unit": PathKind.CONSUMEQUEUE_EXT,
    "index-header": PathKind.INDEX,
    "slot": PathKind.INDEX,
    "chain": PathKind.INDEX,
    "item": PathKind.INDEX,
    "checkpoint": PathKind.CHECKPOINT,
    "config-entry": PathKind.CONFIG,
}
"""The types of rows that can be requested, and the kinds of files that have them."""


@dataclass(frozen=True)
class DumpRequest:
    """A request to dump a store.

    Attributes:
        kinds: Structures; empty means all that the path shows.
        messages: Filter of messages, or units of queues.
        from_offset: Physical offset; inside a record the next one is the first.
        to_offset: Physical offset; what starts there or later is not dumped.
        on_corrupt: ``resync``, or ``stop`` at the first damage that ends a chain of records; readers of the
            rows
            may ``fail`` at the first error.
        slots: Also the used slots of index files.
        chains: Also the chains of index files.
        hex: Also the bytes of every row, field by field.
        lines: Form of bodies if messages may come as lines of ndjson, ``none``, ``text`` or ``hex``; None if
            rows are needed.
        columns: The columns if messages may come as such; None if rows are needed.
        odd_flags: Bits of SYSFLAG whose messages are needed as rows, whatever ``lines`` says.
        row_types: Types of rows, as of `ROW_TYPES`; empty means all, or messages if they are filtered. Damage
            is always shown.
    """

    kinds: frozenset[PathKind] = frozenset()
    messages: MessageFilter = field(default_factory=MessageFilter)
    from_offset: int | None = None
    to_offset: int | None = None
    on_corrupt: str = "resync"
    slots: bool = False
    chains: bool = False
    hex: bool = False
    lines: str | None = None
    columns: ColumnChoice | None = None
    odd_flags: int = 0
    row_types: frozenset[str] = frozenset()

    @property
    def filters_messages(self) -> bool:
        """Whether there is a filter of messages."""
        return any(getattr(self.messages, name) is not None for name in _MESSAGE_FILTERS)

    def admits_type(self, row_type: str) -> bool:
        """Whether rows of a type are wanted; a BLANK does not pass a filter of messages.

        Inner messages are made of messages, which are dropped after that.
        """
        if self.row_types:
            return row_type in self.row_types or (row_type == "message" and "inner-message" in self.row_types)
        return row_type != "blank" or not self.filters_messages

    def applicable(self) -> dict[str, tuple[PathKind, ...]]:
        """Return the structures to which each filter in use can be applied, by the option's name."""
        wanted = self.messages
        uses: dict[str, tuple[object, tuple[PathKind, ...]]] = {
            "--topic": (wanted.topic, (*_LOG, *_QUEUES)),
            "--queue": (wanted.queue_id, (*_LOG, *_QUEUES)),
            "--tag": (wanted.tag, (*_LOG, PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE)),
            "--key": (wanted.key, _LOG),
            "--begin": (wanted.begin_ms, (*_LOG, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)),
            "--end": (wanted.end_ms, (*_LOG, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)),
            "--from-queue-offset": (wanted.from_queue_offset, (*_LOG, PathKind.CONSUMEQUEUE)),
            "--from-offset": (self.from_offset, _WITH_OFFSETS),
            "--to-offset": (self.to_offset, _WITH_OFFSETS),
        }
        return {name: kinds for name, (value, kinds) in uses.items() if value is not None}

    def admits_offset(self, physical_offset: int) -> bool:
        """Whether a physical offset lies in the wanted range."""
        if self.from_offset is not None and physical_offset < self.from_offset:
            return False
        return self.to_offset is None or physical_offset < self.to_offset
