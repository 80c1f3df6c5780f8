"""Small logs for tests: records by the schemas, files in memory, and a run of the pipeline over them."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.dispatch.policy import NEVER, DispatchPolicy
from rmqtool.engine import EngineOptions
from rmqtool.io import location_of
from rmqtool.io.location import UnreadableRange
from rmqtool.javacompat import read_delay_levels
from rmqtool.progress import NullProgress
from rmqtool.releases import NEWEST, RELEASES
from rmqtool.reput.pipeline import ReputPlan, ReputResult, run_reput
from rmqtool.reput.queues import QueueGeometry
from rmqtool.store.broker_conf import DEFINITIONS
from rmqtool.store.geometry import Geometry
from rmqtool.store.segments import FileQueue, Segment
from rmqtool.store.staging import StagingHandle
from tests.broker_model.reput import Sizes
from tests.scan.log_builder import blank, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
    from types import TracebackType
    from typing import Self

T = TypeVar("T")
R = TypeVar("R")

_DELAY_MS = read_delay_levels(str(DEFINITIONS["messageDelayLevel"].default(NEWEST))).delay_ms
POLICY_4_9 = DispatchPolicy(RELEASES["4.9.8"], _DELAY_MS)
POLICY_5 = DispatchPolicy(RELEASES["5.3.3"], _DELAY_MS)
POLICY_5_5 = DispatchPolicy(RELEASES["5.5.1"], _DELAY_MS)


@dataclass(unsafe_hash=True)
class MemorySegment(Segment):
    """A segment whose bytes are at hand, so that a property test opens no files.

    Attributes:
        data: the file as it is now; shorter than ``size_bytes`` if it shrank since it was listed.
        bad: ranges of positions that the disk does not deliver.
    """

    data: bytes = b""
    bad: tuple[tuple[int, int], ...] = ()

    def read_into(
        self,
        position: int,
        buffer: bytearray | memoryview[Any],
        unreadable: MutableSequence[UnreadableRange] | None = None,
    ) -> int:
        piece = self.read_at(position, len(buffer), unreadable)
        memoryview(buffer)[: len(piece)] = piece
        return len(piece)

    def next_written(self, position: int) -> int:
        return position

    def read_at(
        self, position: int, length: int, unreadable: MutableSequence[UnreadableRange] | None = None
    ) -> bytes:
        piece = bytearray(self.data[position : position + length])
        for start, stop in self.bad:
            low, high = max(start, position), min(stop, position + len(piece))
            if low < high:
                piece[low - position : high - position] = bytes(high - low)
                if unreadable is not None:
                    unreadable.append(UnreadableRange(low, high - low))
        return bytes(piece)


def memory_segment(data: bytes, start: int = 0, size_bytes: int | None = None) -> MemorySegment:
    """Make a segment of bytes."""
    name = f"{start:020d}"
    size = len(data) if size_bytes is None else size_bytes
    return MemorySegment(location_of(name), f"commitlog/{name}", size, start, data=data)


def memory_log(files: Mapping[int, bytes]) -> FileQueue:
    """Make a commit log of files by their start."""
    return FileQueue((), tuple(memory_segment(data, start) for start, data in sorted(files.items())))


def properties(pairs: Mapping[str, str] | Mapping[str, bytes] | Mapping[str, str | bytes]) -> bytes:
    """Build a property string, without the last separator as 4.9.1+ write it."""
    return b"\x02".join(
        name.encode() + b"\x01" + (value if isinstance(value, bytes) else value.encode())
        for name, value in pairs.items()
    )


@dataclass
class LogBuilder:
    """A log written message by message, with BLANKs where a file ends (``DefaultAppendMessageCallback``).

    Attributes:
        file_size: bytes of each file.
        start: physical offset of the first byte.
        data: what was written.
    """

    file_size: int
    start: int = 0
    data: bytearray = field(default_factory=bytearray)

    @property
    def place(self) -> int:
        """Return the physical offset of the next byte."""
        return self.start + len(self.data)

    def add(self, **fields: Any) -> int:  # noqa: ANN401 - any field of the schema
        """Append a record, in the next file if it does not fit; return its physical offset."""
        size = len(record(0, **fields))
        room = self.file_size - len(self.data) % self.file_size
        if size + 8 > room:
            self.data += blank(room) if room >= 8 else bytes(room)  # less is left by rubbish only
        place = self.place
        self.data += record(place, **{"physicalOffset": place} | fields)
        return place

    def add_raw(self, data: bytes) -> int:
        """Append bytes that are no record; return their physical offset."""
        self.data += data
        return self.place - len(data)

    def files(self) -> dict[int, bytes]:
        """Return the files by their start; the last one ends in zeros."""
        data = bytes(self.data) + bytes(-len(self.data) % self.file_size)
        return {self.start + at: data[at : at + self.file_size] for at in range(0, len(data), self.file_size)}


class InlineEngine:
    """The plainest engine: one item after the other, in this thread; each twice when told so."""

    name = "inline"
    options = EngineOptions("local")

    def __init__(self, *, twice: bool = False) -> None:
        self._twice = twice

    def map(
        self,
        function: Callable[[T], R],
        items: Sequence[T],
        progress: Callable[[int], None] | None = None,
    ) -> list[R]:
        if self._twice:
            for item in items:
                function(item)
        return [function(item) for item in items]

    def close(self) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@contextmanager
def staging() -> Iterator[StagingHandle]:
    """Give a staging area that nobody publishes."""
    with tempfile.TemporaryDirectory(prefix="rmqtool-test-") as folder:
        handle = StagingHandle(Path(folder))
        handle.result.mkdir()
        handle.blocks.mkdir()
        yield handle


def plan_of(
    log: FileQueue,
    file_size: int,
    policy: DispatchPolicy,
    handle: StagingHandle,
    *,
    sizes: Sizes | None = None,
    split_bytes: int = 1 << 28,
    until_offset: int = NEVER,
) -> ReputPlan:
    """Plan everything that can be made of a log, index files named in UTC."""
    sizes = sizes or Sizes()
    return ReputPlan(
        log,
        file_size,
        policy,
        handle,
        frozenset({"consumequeue", "index"}),
        QueueGeometry(sizes.consumequeue, sizes.ext, sizes.batch),
        Geometry(sizes.slots, sizes.items),
        UTC,
        until_offset,
        split_bytes,
    )


@dataclass(frozen=True)
class Built:
    """What a run made: queue files by path, index files in order of their names, the names, the result."""

    queues: dict[str, bytes]
    index: list[bytes]
    index_names: list[str]
    result: ReputResult


def build(
    log: FileQueue,
    file_size: int,
    policy: DispatchPolicy,
    *,
    twice: bool = False,
    sizes: Sizes | None = None,
    split_bytes: int = 1 << 28,
    until_offset: int = NEVER,
) -> Built:
    """Run the pipeline on a log and read what it made."""
    with staging() as handle:
        plan = plan_of(
            log, file_size, policy, handle, sizes=sizes, split_bytes=split_bytes, until_offset=until_offset
        )
        result = run_reput(plan, InlineEngine(twice=twice), NullProgress())
        files = read_tree(handle.result)
    names = sorted(name for name in files if name.startswith("index/"))
    index = [files.pop(name) for name in names]
    return Built(files, index, [name.removeprefix("index/") for name in names], result)


REPORTS = frozenset({"_export.json", "rebuild.json"})
"""They lie beside what was made, and say how long it took."""


def read_tree(root: Path) -> dict[str, bytes]:
    """Return every file below a directory by its relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def read_result(root: Path) -> dict[str, bytes]:
    """Return every file of a result but its report, by its relative path."""
    return {name: data for name, data in read_tree(root).items() if name.rpartition("/")[2] not in REPORTS}
