"""Files of columns: Parquet, Arrow, and lines of text, by row groups, divided by topic or day on request."""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import numpy as np

from rmqtool.columns import (
    EARLIEST_MS,
    LATEST_MS,
    ColumnChoice,
    ColumnFile,
    FileForm,
    FileFormat,
    Partition,
    names_in_files,
)
from rmqtool.columns.encoder import word_numbers
from rmqtool.columns.lines import LineForm, LineMaker
from rmqtool.kernels.columns import Long, Word
from rmqtool.store.names import LONGEST_COMPONENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from rmqtool import rows
    from rmqtool.arrays import Array, Bools
    from rmqtool.columns.arrow import Tables
    from rmqtool.store.staging import StagedFile, StagingHandle


class Output:
    """A staged file for pyarrow and other writers, which write it from front to end."""

    closed = False
    is_abandoned = False

    def __init__(self, file: StagedFile) -> None:
        self._file = file
        self.size_bytes = 0

    def write(self, data: Buffer) -> int:
        """Append bytes and return their number."""
        count = memoryview(data).nbytes
        if not self.is_abandoned:
            self._file.write_at(self.size_bytes, data)
        self.size_bytes += count
        return count

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size_bytes

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the staged file has a context of its own."""


class _Lines:
    """Parts that are lines; unless they are kept, each is valid until the next."""

    def __init__(self, form: LineForm, *, are_kept: bool) -> None:
        self._form, self._are_kept = form, are_kept
        self._maker = LineMaker(form)

    def divided(
        self, columns: rows.Columns, wanted: Iterable[tuple[str, Bools]]
    ) -> Iterator[tuple[str, bytes | memoryview, int]]:
        for place, are_wanted in wanted:
            for lines in self._maker.lines(columns, np.flatnonzero(are_wanted)):
                yield place, bytes(lines) if self._are_kept else lines, len(lines)

    def writer(self, output: Output) -> _LineWriter:
        output.write(self._form.head.encode())
        return _LineWriter(output)


class _LineWriter:
    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, parts: list[bytes | memoryview]) -> None:
        for part in parts:
            self._output.write(part)

    def finish(self) -> None:
        """Do nothing: the last line has no sequel."""


GROUP_BYTES = 64 << 20
"""Bytes in memory at which a row group ends, after a whole batch."""

GROUP_ROWS = 1 << 18
_OPEN_FILES = 64
_DAY_MS = 86_400_000
_DIGITS = 32
"""Digits of a digest, enough for no two topics to have the same."""

_DIGEST = re.compile(f"~[0-9a-f]{{{_DIGITS}}}$")
_CUT_ESCAPE = re.compile("%[0-9A-F]?$")
_CUT_FROM = LONGEST_COMPONENT_BYTES - len("%0")
"""Least length of a name that was cut: part of an escape may be cut off, too."""

_NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name of a partition of rows without a value."""


class TableFiles:
    """Files of one task; a context manager that removes them after an error.

    ``folder``, empty or with ``/`` at its end, comes before the folders of partitions, ``name`` after them,
    without its ending. For the columns of the files see `names_in_files`.
    """

    def __init__(
        self, staging: StagingHandle, name: str, folder: str, choice: ColumnChoice, form: FileForm
    ) -> None:
        names = names_in_files(choice.names, form.partition)
        self._group_bytes = GROUP_BYTES
        if form.format.is_lines:
            lines = LineForm(names, form.bodies, form.format is FileFormat.CSV)
            self._parts: _Lines | Tables = _Lines(lines, are_kept=form.partition is not None)
            self._group_bytes *= form.partition is not None
        else:
            from rmqtool.columns import arrow

            self._parts = arrow.Tables(form.format, names)
        self._staging, self._name, self._folder, self._form = staging, name, folder, form
        self._groups: dict[str, list[Any]] = {}
        self._sizes: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._topics: dict[str, str] = {}
        self._begun: dict[str, int] = {}
        self._done: list[ColumnFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        for file in self._open.values():
            file.abandon()

    def add(self, columns: rows.Columns) -> None:
        """Add messages."""
        wanted = []
        for place, topic, are_wanted in _set_apart(columns, self._form.partition):
            wanted.append((place, are_wanted))
            self._rows[place] = self._rows.get(place, 0) + int(are_wanted.sum())
            if topic is not None:
                self._topics[place] = topic
        for place, part, size in self._parts.divided(columns, wanted):
            self._groups.setdefault(place, []).append(part)
            self._sizes[place] = self._sizes.get(place, 0) + size
            if self._sizes[place] >= self._group_bytes or self._rows[place] >= GROUP_ROWS:
                self._write(place)
        while sum(self._sizes.values()) >= 2 * GROUP_BYTES:
            self._write(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> list[ColumnFile]:
        """Write the rest; return the files."""
        for place in list(self._groups):
            self._write(place)
        while self._open:
            self._close_oldest()
        return sorted(self._done, key=lambda file: file.name)

    def _write(self, place: str) -> None:
        del self._sizes[place]
        if place not in self._open:
            if len(self._open) == _OPEN_FILES:
                self._close_oldest()
            self._open[place] = self._begin(place)
        self._open.move_to_end(place)
        self._open[place].write(self._groups.pop(place), self._rows.pop(place, 0))

    def _begin(self, place: str) -> _OpenFile:
        count = self._begun[place] = self._begun.get(place, 0) + 1
        again = f"-{count}" if count > 1 else ""
        name = f"{self._folder}{place}{self._name}{again}.{self._form.format.value}"
        return _OpenFile(self._staging, name, self._parts, self._topics.get(place))

    def _close_oldest(self) -> None:
        _, file = self._open.popitem(last=False)
        self._done.append(file.finish())


class _OpenFile:
    def __init__(self, staging: StagingHandle, name: str, parts: _Lines | Tables, topic: str | None) -> None:
        self._name, self._topic = name, topic
        self._staged = staging.create_file(name)
        self._output = Output(self._staged)
        self._writer = parts.writer(self._output)
        self._messages = 0

    def write(self, parts: list[Any], messages: int) -> None:
        self._writer.write(parts)
        self._messages += messages

    def finish(self) -> ColumnFile:
        try:
            self._writer.finish()
        except BaseException:
            self.abandon()
            raise
        self._staged.finish()
        return ColumnFile(self._name, self._messages, self._output.size_bytes, self._topic)

    def abandon(self) -> None:
        """Remove the file; what pyarrow still writes when its writer is closed is dropped."""
        self._output.is_abandoned = True
        with suppress(ValueError):  # of pyarrow: it failed before
            self._writer.finish()
        self._staged.abandon()


def _set_apart(columns: rows.Columns, partition: Partition | None) -> Iterator[tuple[str, str | None, Bools]]:
    """Yield the Hive folders of messages, the topic if the folder cuts that, and which are in it."""
    if partition is None:
        yield "", None, np.ones(columns.count, np.bool_)
        return
    if partition is Partition.TOPIC:
        numbers: Array = word_numbers(columns, "topic")
        words = columns.words[Word.TOPIC]
        values = {number: words[number].decode() for number in np.unique(numbers).tolist()}
    else:
        numbers = columns.longs[Long.STORE_TIMESTAMP, : columns.count] // _DAY_MS
        values = {number: _day(number) for number in np.unique(numbers).tolist()}
    for number, value in values.items():
        folder, is_cut = folder_of(partition, value)
        yield f"{folder}/", value if is_cut else None, numbers == number


def folder_of(partition: Partition, value: str) -> tuple[str, bool]:
    """Return the name of a folder, and whether it is cut and ends with a digest, for lack of room.

    A value that only looks cut gets its own digest, so that no two folders are the same.
    """
    folder = f"{partition}={quote(value, safe='')}"
    looks_cut = len(folder) >= _CUT_FROM and _DIGEST.search(folder) is not None
    if len(folder) <= LONGEST_COMPONENT_BYTES and not looks_cut:
        return folder, False
    digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    kept = _CUT_ESCAPE.sub("", folder[: LONGEST_COMPONENT_BYTES - 1 - _DIGITS])
    return f"{kept}~{digest}", True


def _day(number: int) -> str:
    if not EARLIEST_MS <= number * _DAY_MS <= LATEST_MS:
        return _NO_DAY
    return datetime.fromtimestamp(number * _DAY_MS / 1000, UTC).date().isoformat()
