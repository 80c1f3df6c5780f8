"""All bytes of a store by the field that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.formats import checkpoint, consumequeue, index, message, struct_of
from rmqtool.store import open_store
from tests.damage.places import Places, record_fields, table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import construct

    from rmqtool.scan.records import Record

_INDEXED = ("KEYS", "UNIQ_KEY", "TAGS", "DELAY", "INNER_", "__CRC32#")
_LOG, _INDEX, _CHECKPOINT = "commitlog", "index", "checkpoint"
_UNITS = {
    "consumequeue": ("unit", consumequeue.UNIT),
    "batchconsumequeue": ("batch unit", consumequeue.BATCH_UNIT),
}
_NO_UNIT = {message.TRANSACTION_PREPARED, message.TRANSACTION_ROLLBACK}
_PAPERS = {"broker.conf", "recipe.toml", "SHA256SUMS"}


class Region(NamedTuple):
    """Bytes of one field.

    Attributes:
        name: what they are, the same for all fields of that kind.
        file: label of the file.
        start: position of the first byte.
        stop: position after the last one.
    """

    name: str
    file: str
    start: int
    stop: int


def store_labels(root: Path) -> list[str]:
    """Return the files of a fixture that the broker wrote."""
    labels = (path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file())
    return [label for label in labels if label not in _PAPERS and not label.startswith("reference/")]


def regions_of(root: Path) -> list[Region]:
    """Return what every byte of a store is."""
    found = [region for region in _log(Places(root)) if region.stop > region.start]
    log_start = min(int(path.name) for path in (root / _LOG).iterdir())
    for label in store_labels(root):
        kind = label.split("/")[0]
        data = (root / label).read_bytes()
        if kind in _UNITS:
            found += _units(label, data, log_start, *_UNITS[kind])
        elif kind == "consumequeue_ext":
            found += _ext_units(label, data)
        elif kind == _INDEX:
            found += _index(root, label, data, log_start)
        elif kind == _CHECKPOINT:
            found += _fields("checkpoint", checkpoint.CHECKPOINT, label, 0)
            found.append(Region("checkpoint: unused", label, checkpoint.CHECKPOINTS.size, len(data)))
        elif kind != _LOG and data:
            found.append(Region("side file", label, 0, len(data)))
    return found


def _fields(what: str, schema: construct.Struct, label: str, at: int) -> Iterator[Region]:
    for name, (offset, width) in table(schema).items():
        yield Region(f"{what}: {name}", label, at + offset, at + offset + width)


def _log(places: Places) -> Iterator[Region]:
    ends: dict[str, int] = {}
    for record in places.records:
        whole = places.of_record(record)
        ends[whole.file] = whole.position + whole.length
        for name, start, stop in _record(record):
            yield Region(name, whole.file, whole.position + start, whole.position + stop)
    for number in range(len(places.blanks)):
        at = places.find({"blank": number})
        stop = (places.root / at.file).stat().st_size
        ends[at.file] = stop
        yield from _fields("BLANK", message.END_MARK, at.file, at.position)
        yield Region("BLANK: rest", at.file, at.position + 8, stop)
    for path in sorted((places.root / _LOG).iterdir()):
        label = f"{_LOG}/{path.name}"
        yield Region("log tail", label, ends.get(label, 0), path.stat().st_size)


def _record(record: Record) -> Iterator[tuple[str, int, int]]:
    kind = "record+crc" if "__CRC32#" in record.properties else "record"
    if record.head.sys_flag & message.TRANSACTION_MASK in _NO_UNIT:
        kind = "record without unit"
    empty = "" if record.body_length else " (no body)"
    for name, (at, length) in record_fields(record).items():
        if name.endswith("Host"):
            yield f"{kind}: {name} address", at, at + length - 4
            yield f"{kind}: {name} port", at + length - 4, at + length
        elif name == "properties":
            yield from _properties(kind, record.raw[at : at + length], at)
        else:
            yield f"{kind}: {name}{empty if name == 'bodyCrc' else ''}", at, at + length


def _properties(kind: str, data: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    start = 0
    while start < len(data):
        stop = data.find(b"\x02", start) + 1 or len(data)
        text = data[start:stop].decode("utf-8", "replace")
        said = text.partition("\x01")[2].strip(" \x02")  # a blank KEYS has no keys
        name = next((known.rstrip("_") for known in _INDEXED if text.startswith(known) and said), "others")
        yield f"{kind}: property {name.strip('#')}", at + start, at + stop
        start = stop


def _units(label: str, data: bytes, log_start: int, what: str, schema: construct.Struct) -> Iterator[Region]:
    width = struct_of(schema).size
    used = -(-len(data.rstrip(b"\0")) // width) * width
    for at in range(0, used, width):
        is_expired = int.from_bytes(data[at : at + 8], "big") < log_start
        yield from _fields(f"expired {what}" if is_expired else what, schema, label, at)
    if used < len(data):
        yield Region(f"{what}: after the last", label, used, len(data))


def _ext_units(label: str, data: bytes) -> Iterator[Region]:
    head, at = struct_of(consumequeue.EXT_HEAD), 0
    while at + head.size <= len(data) and (size := head.unpack_from(data, at)[0]) > 0:
        yield from _fields("ext unit", consumequeue.EXT_HEAD, label, at)
        if size > head.size:
            yield Region("ext unit: bit map", label, at + head.size, at + size)
        at += size
    if at + 2 <= len(data):
        yield Region("ext unit: end mark", label, at, at + 2)
        yield Region("ext unit: after the last", label, at + 2, len(data))


def _index(root: Path, label: str, data: bytes, log_start: int) -> Iterator[Region]:
    slots = open_store(root, broker_conf=root / "broker.conf").settings.index_geometry.slots
    header = struct_of(index.HEADER).unpack_from(data)
    is_expired = header[-1] > 1 and header[2] < log_start
    yield from _fields("expired index header" if is_expired else "index header", index.HEADER, label, 0)
    for slot in range(slots):
        yield Region("index slot", label, index.slot_position(slot), index.slot_position(slot + 1))
    count = max(header[-1], 1)
    for item in range(1, count):
        yield from _fields("index item", index.ITEM, label, index.item_position(slots, item))
    yield Region("index item 0", label, index.item_position(slots, 0), index.item_position(slots, 1))
    if (after := index.item_position(slots, count)) < len(data):
        yield Region("index item: after the last", label, after, len(data))
