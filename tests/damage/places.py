"""Places of a store by the names of its structures: a case says what it hits, not where that lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rmqtool.formats import checkpoint, consumequeue, index, message
from rmqtool.formats.fields import layout
from rmqtool.scan.record_walk import BlankRecord, walk
from rmqtool.scan.records import Record
from rmqtool.store import PathKind, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import construct

    Spec = Mapping[str, Any]

_ORDINAL = "index/#"


@dataclass(frozen=True)
class Place:
    """Bytes of one file.

    Attributes:
        file: label, relative to the store.
        position: of the first byte.
        length: bytes.
    """

    file: str
    position: int
    length: int


def table(schema: construct.Struct, **context: int) -> dict[str, tuple[int, int]]:
    """Return offset and width of the fields of a schema by name."""
    return {
        field.name: (field.offset, field.size)
        for field in layout(schema, **context)
        if field.offset is not None and field.size is not None
    }


class Places:
    """Finds places in a store; they are those of the store as it was when they were first asked for.

    Args:
        root: of an undamaged store with its ``broker.conf``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int]:
        settings = open_store(self.root, broker_conf=self.root / "broker.conf").settings
        return (
            settings.commitlog_file_size,
            settings.consumequeue_file_size,
            settings.batchconsumequeue_file_size,
            settings.index_geometry.slots,
        )

    @cached_property
    def _events(self) -> tuple[list[Record], list[BlankRecord]]:
        log = open_store(self.root, broker_conf=self.root / "broker.conf").commitlog
        events = list(walk(log.segments))
        log.close()
        records = [event for event in events if isinstance(event, Record)]
        return records, [event for event in events if isinstance(event, BlankRecord)]

    @property
    def records(self) -> list[Record]:
        """Return all records of the log."""
        return self._events[0]

    @property
    def blanks(self) -> list[BlankRecord]:
        """Return all BLANKs of the log."""
        return self._events[1]

    @cached_property
    def index_names(self) -> list[str]:
        """Return the labels of the index files."""
        return [f"index/{path.name}" for path in sorted((self.root / "index").glob("*"))]

    def label(self, text: str) -> str:
        """Return a file's label; ``index/#2`` is the third index file, whatever the clock named it."""
        if not text.startswith(_ORDINAL):
            return text
        return self.index_names[int(text.removeprefix(_ORDINAL))]

    def ordinal(self, label: str | None) -> str | None:
        """Return the label as cases write it."""
        return f"{_ORDINAL}{self.index_names.index(label)}" if label in self.index_names else label

    def find(self, spec: Spec) -> Place:
        """Return the bytes that a table names.

        ``record``, ``blank``: number in the log, from the end if negative; of a record also the value of a
        ``property``. ``queue`` or ``batch`` with ``unit``; ``index`` with ``item``, ``slot`` or nothing (its
        header); each with a ``field``, else all of it. ``checkpoint``: a field. ``file`` with ``at``, from
        the end if negative. ``plus`` moves on.

        Raises:
            KeyError: there is no such field.
        """
        place = self._found(spec)
        plus = int(spec.get("plus", 0))
        return Place(place.file, place.position + plus, max(place.length - plus, 0))

    def _found(self, spec: Spec) -> Place:
        kinds = {
            "property": self._property,
            "record": lambda spec: self.of_record(self.records[spec["record"]], spec.get("field")),
            "blank": self._blank,
            "checkpoint": _in_checkpoint,
            "queue": lambda spec: self._unit(PathKind.CONSUMEQUEUE, spec["queue"], consumequeue.UNIT, spec),
            "batch": lambda spec: self._unit(
                PathKind.BATCHCONSUMEQUEUE, spec["batch"], consumequeue.BATCH_UNIT, spec
            ),
            "index": self._in_index,
            "file": self._in_file,
        }
        return next(find for kind, find in kinds.items() if kind in spec)(spec)

    def of_record(self, record: Record, field: str | None = None) -> Place:
        """Return a record or a part of it, also ``body``, ``topic``, ``properties``, lengths, ``end``."""
        whole = self._in_log(record.physical_offset, len(record.raw))
        if field is None:
            return whole
        at, length = record_fields(record)[field]
        return Place(whole.file, whole.position + at, length)

    def _property(self, spec: Spec) -> Place:
        """Return the value of a property."""
        record, name = self.records[spec["record"]], spec["property"].encode() + b"\x01"
        whole = self.of_record(record, "properties")
        data = record.raw[len(record.raw) - whole.length :]
        at = data.index(name) + len(name)
        stop = data.find(b"\x02", at)
        return Place(whole.file, whole.position + at, (len(data) if stop < 0 else stop) - at)

    def _blank(self, spec: Spec) -> Place:
        blank = self.blanks[spec["blank"]]
        return _field(self._in_log(blank.physical_offset, 8), message.END_MARK, spec)

    def _in_file(self, spec: Spec) -> Place:
        label, at = self.label(spec["file"]), int(spec.get("at", 0))
        size = (self.root / label).stat().st_size if (self.root / label).is_file() else 0
        at = at + size if at < 0 else at
        return Place(label, at, max(size - at, 0))

    def _in_log(self, physical_offset: int, length: int) -> Place:
        size = self._sizes[0]
        return Place(f"commitlog/{physical_offset // size * size:020d}", physical_offset % size, length)

    def _unit(self, kind: PathKind, queue: str, schema: construct.Struct, spec: Spec) -> Place:
        width = sum(size for _, size in table(schema).values())
        size = self._sizes[1 if kind is PathKind.CONSUMEQUEUE else 2]
        byte = int(spec["unit"]) * width
        label = f"{kind.value}/{queue}/{byte // size * size:020d}"
        return _field(Place(label, byte % size, width), schema, spec)

    def _in_index(self, spec: Spec) -> Place:
        label = self.index_names[spec["index"]]
        if "item" in spec:
            position = index.item_position(self._sizes[3], spec["item"])
            return _field(Place(label, position, index.ITEM_SIZE), index.ITEM, spec)
        if "slot" in spec:
            return Place(label, index.slot_position(spec["slot"]), index.SLOT_SIZE)
        return _field(Place(label, 0, index.HEADER_SIZE), index.HEADER, spec)


def _field(whole: Place, schema: construct.Struct, spec: Spec) -> Place:
    if "field" not in spec:
        return whole
    at, length = table(schema)[spec["field"]]
    return Place(whole.file, whole.position + at, length)


def _in_checkpoint(spec: Spec) -> Place:
    return Place("checkpoint", *table(checkpoint.CHECKPOINT)[spec["checkpoint"]])


def record_fields(record: Record) -> dict[str, tuple[int, int]]:
    """Return offset and length of all parts of a record."""
    fields = table(message.HEAD, sysFlag=record.head.sys_flag)
    at = record.body_start
    topic_width = message.TOPIC_LENGTHS[record.head.magic].size
    topic = len(record.topic_bytes)
    parts = {"body": record.body_length, "topicLength": topic_width, "topic": topic, "propertiesLength": 2}
    for name, length in parts.items():
        fields[name] = at, length
        at += length
    fields["properties"] = at, len(record.raw) - at
    fields["end"] = len(record.raw), 0
    return fields
