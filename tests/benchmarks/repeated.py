"""A log of any size that takes the room of one file: the others are made of it while they are read.

The first file of a store of `make_log` serves for all. In the file of number ``k`` every record has the
physical offset of its place there, queue offsets that go on where those of file ``k - 1`` end, later times,
and a unique key and keys of its own; its queue, its body and so its checksum are those of the first. Nothing
is kept: a read is one of the first file and a few columns of it written anew.

``python -m tests.benchmarks.repeated STORE --files N --engine local --out DIR --told FILE`` rebuilds such a
store, ``--read`` only reads it; `tests.benchmarks.large` measures both.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import rmqtool
from rmqtool.io import DirectoryEntry, FileKind, LocalFiles, Location, Status
from tests.benchmarks.make_log import LogShape, write_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rmqtool.io import Handle

_SHAPE, _STEPS = "shape.json", "steps.npy"
_READ_BYTES = 8 << 20
_KEY_PAIRS = 4
"""So many pairs of hexadecimal digits of a key are replaced by the number of the file."""


def write_first_file(root: Path, shape: LogShape, file_bytes: int) -> int:
    """Write the store of one file that stands for many; return how many records it has."""
    records = (file_bytes - 8) // len(shape.template)
    write_store(root, shape, (records + 1) * len(shape.template), file_bytes)  # one more, for a BLANK behind
    (root / "commitlog" / f"{file_bytes:020d}").unlink()
    rows = np.memmap(root / "commitlog" / f"{0:020d}", shape.record, "r", shape=records)
    _, topics = np.unique(rows["topic"], return_inverse=True)
    _, queues, counts = np.unique(
        topics * shape.queues + rows["queueId"], return_inverse=True, return_counts=True
    )
    np.save(root / _STEPS, counts[queues].astype(np.int32))
    (root / _SHAPE).write_text(json.dumps(asdict(shape)))
    return records


@cache
def _shape(root: str) -> LogShape:
    return LogShape(**json.loads(Path(root, _SHAPE).read_text()))


@cache
def _steps(root: str) -> npt.NDArray[np.int32]:
    """Return for each record of a file how many its queue has in there."""
    steps: npt.NDArray[np.int32] = np.load(Path(root, _STEPS))
    return steps


@dataclass(frozen=True)
class RepeatedLog:
    """A source, see `rmqtool.io.source.Source`: a store on this disk whose log has as many files as wanted.

    Attributes:
        root: the store of one file.
        files: how many its log has here.
        file_bytes: their size.
    """

    root: str
    files: int
    file_bytes: int

    def status(self, path: str) -> Status | None:
        """Return what a name stands for."""
        number = self._number(path)
        if number is None:
            return LocalFiles().status(path)
        return Status(FileKind.FILE, self.file_bytes, 0, path) if number < self.files else None

    def entries(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory by name."""
        if path != f"{self.root}/commitlog":
            return LocalFiles().entries(path)
        names = [f"{number * self.file_bytes:020d}" for number in range(self.files)]
        return [
            DirectoryEntry(name, Status(FileKind.FILE, self.file_bytes, 0, f"{path}/{name}"))
            for name in names
        ]

    def open(self, path: str) -> Handle:
        """Open a file."""
        number = self._number(path)
        if number is None:
            return LocalFiles().open(path)
        return _RepeatedFile(self, number, LocalFiles().open(f"{self.root}/commitlog/{0:020d}"))

    def absolute(self, text: str) -> str:
        """Return a name from the top."""
        return LocalFiles().absolute(text)

    def real(self, path: str) -> str:
        """Return the same place without links."""
        return LocalFiles().real(path)

    def local_path(self, path: str) -> Path:
        """Return where nothing is written."""
        return LocalFiles().local_path(path)

    def lock_holder(self, path: str) -> int | None:
        """Return who holds a lock."""
        return LocalFiles().lock_holder(path)

    def _number(self, path: str) -> int | None:
        folder, _, name = path.rpartition("/")
        return int(name) // self.file_bytes if folder == f"{self.root}/commitlog" else None


class _RepeatedFile:
    """One file of the log; its records are those of the first, with other numbers in them."""

    def __init__(self, log: RepeatedLog, number: int, first: Handle) -> None:
        self._log, self._number, self._first = log, number, first
        self._record, self._steps = _shape(log.root).record, _steps(log.root)
        digits = np.frombuffer(f"{number:0{2 * _KEY_PAIRS}X}".encode(), "S2")
        self._keys = [(name, digits) for name in self._record.names or () if name.lower().find("key") >= 0]

    def size_bytes(self) -> int:
        """Return the size."""
        return self._log.file_bytes

    def next_written(self, position: int) -> int:
        """Return the position: there are no holes."""
        return position

    def read_into(self, position: int, view: memoryview[Any]) -> int:
        """Read from the first file, and write the numbers of this one into what came."""
        count = self._first.read_into(position, view)
        length, records = self._record.itemsize, len(self._steps)
        first, last = -(-position // length), min((position + count) // length, records)
        if first < last:
            at = first * length - position
            self._fill(np.ndarray(last - first, self._record, view, at), first)
        for number in {position // length, (position + count - 1) // length}:
            if count and number < records and not first <= number < last:
                self._fill_part(number, position, view[:count])
        return count

    def _fill_part(self, number: int, position: int, view: memoryview[Any]) -> None:
        """Write what lies in a view of a record that reaches out of it."""
        length = self._record.itemsize
        whole = bytearray(length)
        self._first.read_into(number * length, memoryview(whole))
        self._fill(np.ndarray(1, self._record, whole), number)
        start, stop = max(position, number * length), min(position + len(view), (number + 1) * length)
        view[start - position : stop - position] = whole[start - number * length : stop - number * length]

    def _fill(self, rows: npt.NDArray[Any], first: int) -> None:
        """Write the numbers of this file into whole records."""
        rows["physicalOffset"] += self._number * self._log.file_bytes
        rows["queueOffset"] += self._number * self._steps[first : first + len(rows)].astype(np.int64)
        later_ms = self._number * (len(self._steps) // 100)
        rows["storeTimestamp"] += later_ms
        rows["bornTimestamp"] += later_ms
        for name, digits in self._keys:
            rows[name][:, :_KEY_PAIRS] = digits


def main(arguments: Sequence[str] | None = None) -> None:
    """Rebuild or read the store that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.repeated", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--out", type=Path, help="of the rebuild")
    parser.add_argument("--told", type=Path, help="where it is told what was made")
    parser.add_argument("--read", action="store_true", help="only read the log")
    given = parser.parse_args(arguments)
    root = str(given.store.absolute())
    log = RepeatedLog(root, given.files, Path(root, "commitlog", f"{0:020d}").stat().st_size)
    if given.read:
        buffer = memoryview(bytearray(_READ_BYTES))
        for _, status in log.entries(f"{root}/commitlog"):
            file = log.open(str(status.identity))
            for position in range(0, log.file_bytes, _READ_BYTES):
                file.read_into(position, buffer)
        return
    with rmqtool.open(Location(log, root), timezone="UTC") as store:
        report = store.rebuild(given.out, engine=given.engine)
    told = {"status": int(report.exit_status()), "units": report.units, "indexEntries": report.index_entries}
    given.told.write_text(json.dumps(told))


if __name__ == "__main__":
    from tests.benchmarks import repeated  # noqa: PLW0406 - this is another module

    repeated.main()  # whose classes Spark's workers find by their module
