"""States in which a broker may find a store: edits of a copy, each named for what happened to it."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.scan.record_walk import walk
from rmqtool.scan.records import Record
from rmqtool.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BODY_AT = 88  # hosts IPv4
_MAGIC_AT = 4
_STORE_TIMESTAMP_AT = 56
_UNIT = 20
_FAR = 4_000_000_000_000


@dataclass(frozen=True)
class Edit:
    """One change of a store.

    Attributes:
        name: What happened.
        apply: Makes it so; takes the store root and broker.conf.
        in_store: Whether the store's classes meet it in 5.3; else the broker around them does.
    """

    name: str
    apply: Callable[[Path, Path], None]
    in_store: bool = True


def records(root: Path, conf: Path) -> list[Record]:
    """Return all records of the log."""
    log = open_store(root, broker_conf=conf).commitlog
    found = [event for event in walk(log.segments) if isinstance(event, Record)]
    log.close()
    return found


def _segments(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def _write(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def _in_segment(number: int, edit: Callable[[Path, int, Record], None]) -> Callable[[Path, Path], None]:
    """Edit the middle record of a segment; negative numbers count from the last one that has records."""

    def apply(root: Path, conf: Path) -> None:
        every, files = records(root, conf), _segments(root)
        size = files[0].stat().st_size
        used = sorted({record.physical_offset // size for record in every})
        mine = [record for record in every if record.physical_offset // size == used[number]]
        record = mine[len(mine) // 2]
        path = next(file for file in files if int(file.name) == used[number] * size)
        edit(path, record.physical_offset % size, record)

    return apply


def _bad_magic(path: Path, position: int, _record: Record) -> None:
    _write(path, position + _MAGIC_AT, b"\x01\x02\x03\x04")


def _flip(path: Path, position: int, record: Record) -> None:
    _write(path, position + record.body_start, bytes([record.raw[record.body_start] ^ 1]))


def _zero_page(path: Path, position: int, _record: Record) -> None:
    _write(path, position, bytes(700))


def _torn(path: Path, position: int, record: Record) -> None:
    _write(
        path, position + len(record.raw) // 2, bytes(path.stat().st_size - position - len(record.raw) // 2)
    )


def _size(value: int) -> Callable[[Path, int, Record], None]:
    return lambda path, position, _record: _write(path, position, struct.pack(">i", value))


def _longer(path: Path, position: int, record: Record) -> None:
    """Claim a size at which the lengths do not add up: size > 0, but no success."""
    _write(path, position, struct.pack(">i", len(record.raw) + 7))


def _stale_tail(root: Path, conf: Path) -> None:
    """Leave a record of long ago after the log's end; nobody checks where it says it lies."""
    every, files = records(root, conf), _segments(root)
    size, last = files[0].stat().st_size, every[-1]
    end = last.physical_offset + len(last.raw)
    if end % size + len(every[0].raw) + 8 <= size:
        _write(next(file for file in files if int(file.name) == end // size * size), end % size, every[0].raw)


def _no_blank(root: Path, _conf: Path) -> None:
    data = _segments(root)[-2].read_bytes()
    at = data.rfind(b"\xcb\xd4\x31\x94")
    _write(_segments(root)[-2], at - 4, bytes(8))


def _remove_segment(number: int) -> Callable[[Path, Path], None]:
    return lambda root, _conf: _segments(root)[number].unlink()


def _no_segments(root: Path, _conf: Path) -> None:
    for path in _segments(root):
        path.unlink()


def _resize_segment(number: int, by: int) -> Callable[[Path, Path], None]:
    def apply(root: Path, _conf: Path) -> None:
        path = _segments(root)[number]
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + by)

    return apply


def _next_segment(size: int | None) -> Callable[[Path, Path], None]:
    """Add a file after the last one, of so many bytes, or all zero as one allocated ahead."""

    def apply(root: Path, _conf: Path) -> None:
        last = _segments(root)[-1]
        whole = last.stat().st_size
        with (last.parent / f"{int(last.name) + whole:020}").open("wb") as file:
            file.truncate(whole if size is None else size)

    return apply


def _stray(where: str, name: str, size: int | None = None) -> Callable[[Path, Path], None]:
    """Put a file beside the first one of a directory, of its size if none is given."""

    def apply(root: Path, _conf: Path) -> None:
        directory = root / where
        first = min(path for path in directory.iterdir() if path.is_file())
        (directory / name).write_bytes(bytes(first.stat().st_size if size is None else size))

    return apply


def _directory(where: str) -> Callable[[Path, Path], None]:
    return lambda root, _conf: (root / where).mkdir(parents=True)


def _remove(name: str) -> Callable[[Path, Path], None]:
    def apply(root: Path, _conf: Path) -> None:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return apply


def _queue(root: Path) -> Path:
    """Return the queue with the most files."""
    return max((root / "consumequeue").glob("*/*"), key=lambda path: (len(list(path.iterdir())), path.name))


def _used_units(path: Path) -> int:
    data = path.read_bytes()
    units = [data[at : at + _UNIT] for at in range(0, len(data), _UNIT)]
    return sum(any(unit[:12]) for unit in units)


def _lag(count: int) -> Callable[[Path, Path], None]:
    """Take the last units off every queue, as if they had not been dispatched yet."""

    def apply(root: Path, _conf: Path) -> None:
        for queue in (root / "consumequeue").glob("*/*"):
            last = max(queue.iterdir())
            used = _used_units(last)
            kept = max(used - count, 0)
            _write(last, kept * _UNIT, bytes((used - kept) * _UNIT))

    return apply


def _lag_of_one_queue(root: Path, _conf: Path) -> None:
    last = max(_queue(root).iterdir())
    _write(last, (_used_units(last) - 1) * _UNIT, bytes(_UNIT))


def _zero_unit(root: Path, _conf: Path) -> None:
    _write(max(_queue(root).iterdir()), 0, bytes(_UNIT))


def _empty_next_queue_file(root: Path, _conf: Path) -> None:
    """Fill the last file's name space: the file after it exists, and not a unit in it."""
    last = max(_queue(root).iterdir())
    size, used = last.stat().st_size, _used_units(last)
    unit = last.read_bytes()[(used - 1) * _UNIT : used * _UNIT]
    _write(last, used * _UNIT, unit * (size // _UNIT - used))
    (last.parent / f"{int(last.name) + size:020}").write_bytes(bytes(size))


def _unsized_next_queue_file(root: Path, conf: Path) -> None:
    """Die between creating a queue's next file and giving it its size, with its unit to come."""
    _lag(1)(root, conf)
    _empty_next_queue_file(root, conf)
    max(_queue(root).iterdir()).write_bytes(b"")


def _dangling_unit(root: Path, conf: Path) -> None:
    last, record = max(_queue(root).iterdir()), records(root, conf)[-1]
    used = _used_units(last)
    if used * _UNIT < last.stat().st_size:
        unit = struct.pack(">qiq", record.physical_offset + 5000, 200, 1)
        _write(last, used * _UNIT, unit)


def _queue_file(number: int, edit: Callable[[Path], None]) -> Callable[[Path, Path], None]:
    return lambda root, _conf: edit(sorted(_queue(root).iterdir())[number])


def _checkpoint(times: Callable[[list[Record]], tuple[int, int, int]]) -> Callable[[Path, Path], None]:
    def apply(root: Path, conf: Path) -> None:
        packed = struct.pack(">qqq", *times(records(root, conf)))
        (root / "checkpoint").write_bytes(packed.ljust(4096, b"\0"))

    return apply


def _middle_time(every: list[Record]) -> tuple[int, int, int]:
    time = every[len(every) // 2].head.store_timestamp_ms
    return time + 3000, time + 3000, time


def _file_as_checkpoint(root: Path, _conf: Path) -> None:
    (root / "checkpoint").unlink()
    (root / "checkpoint").mkdir()


def _index_file(number: int, edit: Callable[[Path], None]) -> Callable[[Path, Path], None]:
    return lambda root, _conf: edit(sorted((root / "index").iterdir())[number])


def _shorten(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _bad_delay_offsets(root: Path, _conf: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    for name in ("delayOffset.json", "delayOffset.json.bak"):
        (root / "config" / name).write_text("{ this is no JSON")


def _all_of(*edits: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def apply(root: Path, conf: Path) -> None:
        for edit in edits:
            edit(root, conf)

    return apply


def _file_beside_the_topics(root: Path, _conf: Path) -> None:
    (root / "consumequeue" / "README").write_text("x")


EDITS: tuple[Edit, ...] = (
    *(
        Edit(f"{name} in segment {number}", _in_segment(number, edit))
        for name, edit in (
            ("bad magic", _bad_magic),
            ("flipped body bit", _flip),
            ("zero page", _zero_page),
            ("torn record", _torn),
            ("size that does not add up", _longer),
        )
        for number in (-1, -2, 0)
    ),
    Edit("negative size", _in_segment(-1, _size(-5))),
    Edit("size 0", _in_segment(-1, _size(0))),
    Edit("size of 100 MB", _in_segment(-1, _size(100_000_000))),
    Edit("stale tail", _stale_tail),
    Edit("segment without BLANK", _no_blank),
    *(Edit(f"segment {number} missing", _remove_segment(number)) for number in (0, 1, -2, -1)),
    Edit("first two segments missing", _all_of(_remove_segment(0), _remove_segment(0))),
    Edit("no segment left", _no_segments),
    Edit("commitlog missing", _remove("commitlog")),
    Edit("short segment", _resize_segment(1, -1)),
    Edit("long last segment", _resize_segment(-1, 1)),
    Edit("empty next segment", _next_segment(0)),
    Edit("segment allocated ahead", _next_segment(None)),
    Edit("stray file in commitlog", _stray("commitlog", ".DS_Store", 6148)),
    Edit("stray file of a segment's size", _stray("commitlog", "00000000000000000000.bak")),
    Edit("directory in commitlog", _directory("commitlog/lost+found")),
    Edit("consumequeue missing", _remove("consumequeue")),
    Edit("consumequeue and index missing", _all_of(_remove("consumequeue"), _remove("index"))),
    Edit("one queue missing", lambda root, _conf: shutil.rmtree(_queue(root))),
    Edit("one unit lags", _lag_of_one_queue),
    Edit("all queues lag by one", _lag(1)),
    Edit("all queues lag by five", _lag(5)),
    Edit("zero unit", _zero_unit),
    Edit("queue file without a unit", _empty_next_queue_file),
    Edit("queue file without a unit, all queues lag", _all_of(_lag(1), _empty_next_queue_file)),
    Edit("queue file of no size", _unsized_next_queue_file),
    Edit("dangling unit", _dangling_unit),
    Edit("first queue file missing", _queue_file(0, lambda path: path.unlink())),
    Edit("last queue file missing", _queue_file(-1, lambda path: path.unlink())),
    Edit("middle queue file missing", _queue_file(1, lambda path: path.unlink())),
    Edit("short queue file", _queue_file(0, _shorten)),
    Edit("file beside the topics", _file_beside_the_topics),
    Edit("queue named by a word", _directory("consumequeue/TopicTest/zero")),
    Edit("index missing", _remove("index")),
    Edit("stray file in index", _stray("index", "index.tmp")),
    Edit("directory in index", _directory("index/20200101000000000")),
    Edit("short index file", _index_file(-1, _shorten)),
    Edit("last index file missing", _index_file(-1, lambda path: path.unlink())),
    Edit("checkpoint missing", _remove("checkpoint")),
    Edit("checkpoint of zeros", _checkpoint(lambda _: (0, 0, 0))),
    Edit("checkpoint far ahead", _checkpoint(lambda _: (_FAR, _FAR, _FAR))),
    Edit("checkpoint in the middle", _checkpoint(_middle_time)),
    Edit("checkpoint in the middle, no queues", _all_of(_checkpoint(_middle_time), _remove("consumequeue"))),
    Edit("directory as checkpoint", _file_as_checkpoint),
    Edit("undecodable delayOffset.json", _bad_delay_offsets, in_store=False),
)
