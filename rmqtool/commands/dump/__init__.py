"""``dump``: content of a store's files, structure by structure; here is its request.

``run`` goes from structure to structure and reads the log (in one walk, or by kernels on all cores);
``derived`` reads units, index files and ``config/``. ``hex`` adds the bytes of a row, and has the formats'
own tables of fields. Everything is checked first; damage is a row of its own, at its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool import options
from rmqtool.formats.message import COMPRESSED_FLAG, INNER_BATCH_FLAG
from rmqtool.rows.messages import MessageFilter
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from rmqtool.columns import ColumnChoice

_LOG = (PathKind.COMMITLOG,)
_QUEUES = (PathKind.CONSUMEQUEUE, PathKind.BATCHCONSUMEQUEUE, PathKind.CONSUMEQUEUE_EXT)
_OF_RECORDS = ("key", "backlog_of", "in_doubt", "dead_letters", "contains")
_MESSAGE_FILTERS = ("topic", "queue_id", "tag", "begin_ms", "end_ms", "from_queue_offset", *_OF_RECORDS)
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
    "entry-unit": PathKind.ENTRY_INDEX,
    "config-entry": PathKind.CONFIG,
}
"""The types of rows that can be requested, and the kinds of files that have them."""


class OnCorrupt(StrEnum):
    """Continuation after damage; at the first error, ``fail`` ends the rows."""

    RESYNC = "resync"
    STOP = "stop"
    FAIL = "fail"


@dataclass(frozen=True)
class DumpRequest:
    """A request to dump a store; without ``kinds``, all structures that the path shows.

    Messages may come as lines of ndjson with ``lines``, the form of bodies (``none``, ``text``, ``hex`` or
    ``base64``), or as ``columns``; with None, they come as rows.
    """

    kinds: frozenset[PathKind] = frozenset()
    messages: MessageFilter = field(default_factory=MessageFilter, metadata=options.GROUP)
    from_offset: int | None = options.from_offset()
    to_offset: int | None = options.to_offset()
    row_types: frozenset[str] = options.words(
        ROW_TYPES,
        f"Only rows of this type, and damage; repeatable: {', '.join(ROW_TYPES)}. Default: all, or messages"
        " if a filter applies to messages.",
        flags=("--rows",),
        metavar="TYPE",
    )
    decompress: bool = options.flag(options.DECOMPRESS_HELP)
    unpack_batches: bool = options.flag(options.UNPACK_HELP)
    hex: bool = options.flag("Also show the bytes, field by field.")
    slots: bool = options.flag("Also show the used slots of index files.")
    chains: bool = options.flag("Also show the chains of index files.")
    on_corrupt: str = options.word(
        OnCorrupt, OnCorrupt.RESYNC, "Go on after damage, end at it, or fail at the first error."
    )
    lines: str | None = None
    columns: ColumnChoice | None = None

    @property
    def odd_flags(self) -> int:
        """Return bits of SYSFLAG whose messages are needed as rows, whatever ``lines`` says."""
        return COMPRESSED_FLAG * self.decompress | INNER_BATCH_FLAG * self.unpack_batches

    @property
    def filters_messages(self) -> bool:
        """Whether there is a filter of messages."""
        given = (getattr(self.messages, name) for name in _MESSAGE_FILTERS)
        return any(value is not None and value is not False for value in given)

    def admits_type(self, row_type: str) -> bool:
        """Whether rows of a type are wanted; an end mark does not pass a filter of messages.

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
            **{f"--{name.replace('_', '-')}": (getattr(wanted, name) or None, _LOG) for name in _OF_RECORDS},
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
