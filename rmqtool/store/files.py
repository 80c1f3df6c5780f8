"""Files of a store by structure, each listed on first use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import FileKind, Location
from rmqtool.store.kinds import BACKUP, PathKind, is_config_name, is_rocksdb, rocksdb_files
from rmqtool.store.ledger import PROGRESS, framing_in, is_member
from rmqtool.store.names import (
    Listing,
    digits_of,
    list_directories,
    list_file_queue,
    list_index_files,
    safe_component,
)
from rmqtool.store.segments import NAME_DIGITS, FileQueue, Segment, StoreFile, Stray, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_LARGEST_INT = (1 << 31) - 1
_QUEUE_ID = re.compile(r"0|-?[1-9][0-9]{,9}")
TREE_DEPTH = 2
"""Levels of directories from ``consumequeue/`` down to a queue: topic, queue id."""


@dataclass(frozen=True)
class QueueFiles:
    """Files of one queue: a consume queue, its ext queue, or a batch consume queue.

    Topic and queue id are None outside of a store. Labels are relative to ``base``; ``only`` is the one file
    that the command line named.
    """

    kind: PathKind
    topic: str | None
    queue_id: int | None
    directory: Location
    base: Location
    only: Location | None = None
    listing: Listing = field(default_factory=Listing, compare=False, repr=False)

    @cached_property
    def files(self) -> FileQueue:
        """The segments and strays; `EnvironmentFailureError` if the directory may not be read."""
        if self.only is not None:
            return single_file_queue(self.only, self.base)
        return list_file_queue((self.directory,), self.base, self.listing)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all its files."""
        return self.files.size_bytes


class Root(NamedTuple):
    """Place of one structure: a directory, several of a log on several paths, or one file.

    ``depth`` counts the levels down to queue directories, 2 for a whole tree. With ``named``, the directories
    above name topic and queue id.
    """

    paths: tuple[Location, ...]
    depth: int = TREE_DEPTH
    is_file: bool = False
    named: bool = True


class StoreFiles:
    """Files of a store, or of the part of it that was named; ``roots`` has only structures that are shown.

    Directories of queues are listed once: ``listing``.
    """

    def __init__(
        self,
        roots: Mapping[PathKind, Root],
        base: Location,
        root: Location | None,
        listing: Listing | None = None,
    ) -> None:
        self.roots = dict(roots)
        self.base = base
        self.root = root
        self.listing = listing or Listing()
        self._topic_queues: dict[tuple[PathKind, Location], list[QueueFiles]] = {}
        self._databases: dict[Location, bool] = {}

    def is_in_database(self, kind: PathKind) -> bool:
        """Whether RocksDB holds what is shown of a kind, and no files do."""
        root = self.roots.get(kind)
        return root is not None and self.is_database(root.paths[0])

    def is_database(self, directory: Location) -> bool:
        """Whether RocksDB holds what a directory is for, and no files do; the only place that looks."""
        if directory not in self._databases:
            self._databases[directory] = is_rocksdb(directory)
        return self._databases[directory]

    def read_root(self, kind: PathKind) -> Root | None:
        """Return the place of a kind; None where it is not shown, or in a form that is not read."""
        return None if self.is_in_database(kind) else self.roots.get(kind)

    def list_anew(self) -> None:
        """Have the queues listed again, to which a running broker adds."""
        self.listing.forget()
        self._topic_queues.clear()
        self._databases.clear()

    @cached_property
    def commitlog(self) -> FileQueue:
        """The commit log's segments; empty if there are none or they are not shown."""
        root = self.roots.get(PathKind.COMMITLOG, Root(()))
        return (
            single_file_queue(root.paths[0], self.base)
            if root.is_file
            else list_file_queue(root.paths, self.base)
        )

    @property
    def index_files(self) -> tuple[StoreFile, ...]:
        """Index files in the order of their names."""
        return self._index[0]

    @property
    def index_strays(self) -> tuple[Stray, ...]:
        """Other entries of the index directory."""
        return self._index[1]

    @cached_property
    def checkpoint(self) -> StoreFile | None:
        """The checkpoint; None if it is missing, not shown, or not a regular file."""
        root = self.roots.get(PathKind.CHECKPOINT)
        if root is None or not root.paths[0].is_regular():
            return None
        return store_file(root.paths[0], self.base)

    @property
    def config_files(self) -> list[tuple[StoreFile, StoreFile | None]]:
        """The broker's JSON files and a member's progress, each with its ``.bak`` if both are shown."""
        root = self.roots.get(PathKind.CONFIG)
        if root is None or root.is_file:
            return [] if root is None else [(store_file(root.paths[0], self.base), None)]
        pairs = []
        for directory in root.paths:
            of_member = is_member(directory)
            wanted = PROGRESS.__contains__ if of_member else is_config_name
            places = directory.matching("*" if of_member else "*.json*")
            listed = {path.name: path for path in places if path.is_regular()}
            for name in dict.fromkeys(name.removesuffix(BACKUP) for name in listed):
                paths = [listed[file_name] for file_name in (name, name + BACKUP) if file_name in listed]
                if wanted(name):
                    files = [store_file(path, self.base) for path in paths]
                    pairs.append((files[0], files[1] if len(files) > 1 else None))
        return pairs

    def topics(self, kind: PathKind = PathKind.CONSUMEQUEUE) -> list[str]:
        """Return the names of topic directories, sorted."""
        root = self.roots.get(kind)
        if root is None:
            return []
        if root.depth < TREE_DEPTH:
            return sorted({queue.topic for queue in self.queues(kind) if queue.topic is not None})
        return [place.name for place in list_directories(root.paths[0], self.base, self.listing)[0]]

    def queues(
        self, kind: PathKind = PathKind.CONSUMEQUEUE, topic: str | None = None
    ) -> Iterator[QueueFiles]:
        """Yield the queues of a kind by topic name and queue id, of one topic or of all."""
        root = self.roots.get(kind)
        if root is None:
            return
        if root.depth == 0:
            queue = self._lone_queue(kind, root)
            if topic in {None, queue.topic}:
                yield queue
        elif root.depth == 1:
            name = root.paths[0].name if root.named else None
            if topic in {None, name}:
                yield from self._queues_of_topic(kind, name, root.paths[0])
        else:
            for name in self.topics(kind) if topic is None else [topic]:
                if safe_component(name):
                    yield from self._queues_of_topic(kind, name, root.paths[0] / name)

    def queue(self, topic: str, queue_id: int, kind: PathKind = PathKind.CONSUMEQUEUE) -> QueueFiles | None:
        """Return one queue without listing the others; None if it does not exist."""
        root = self.roots.get(kind)
        if root is None or not safe_component(topic):
            return None
        if root.depth < TREE_DEPTH:
            queues = (queue for queue in self.queues(kind, topic) if queue.queue_id == queue_id)
            return next(queues, None)
        directory = root.paths[0] / topic / str(queue_id)
        is_there = directory.is_directory()
        return (
            QueueFiles(kind, topic, queue_id, directory, self.base, None, self.listing) if is_there else None
        )

    def queue_strays(self, kind: PathKind = PathKind.CONSUMEQUEUE) -> Iterator[Stray]:
        """Yield the entries that are neither topic directories nor queue directories.

        Java: ``DefaultMessageStore#loadConsumeQueue`` (4.9.8) and ``ConsumeQueueStore#loadConsumeQueues``
        (5.3.3) ignore them. RocksDB's files of a broker that writes its queues twice do not count.
        """
        root = self.roots.get(kind)
        if root is None or root.depth == 0:
            return
        topics = [root.paths[0]]
        if root.depth == TREE_DEPTH:
            directories, strays = list_directories(root.paths[0], self.base, self.listing)
            rocksdb = rocksdb_files(root.paths[0], (stray.name for stray in strays))
            yield from (stray for stray in strays if stray.name not in rocksdb)
            topics = directories
        for topic in topics:
            directories, strays = list_directories(topic, self.base, self.listing)
            yield from strays
            for place in directories:
                if queue_id_of(place.name) is None:
                    yield Stray(label_of(place, self.base), "is not named by a queue id")

    def close(self) -> None:
        """Close the files of commit log and index; queues are closed by their users."""
        if "commitlog" in self.__dict__:
            self.commitlog.close()
        if "_index" in self.__dict__:
            for file in self.index_files:
                file.close()

    @cached_property
    def _index(self) -> tuple[tuple[StoreFile, ...], tuple[Stray, ...]]:
        root = self.roots.get(PathKind.INDEX)
        if root is None:
            return (), ()
        if root.is_file:
            return (store_file(root.paths[0], self.base),), ()
        return list_index_files(root.paths[0], self.base)

    def _lone_queue(self, kind: PathKind, root: Root) -> QueueFiles:
        directory = root.paths[0].parent if root.is_file else root.paths[0]
        topic, queue_id = (directory.parent.name, queue_id_of(directory.name)) if root.named else (None, None)
        return QueueFiles(
            kind, topic, queue_id, directory, self.base, root.paths[0] if root.is_file else None
        )

    def _queues_of_topic(
        self, kind: PathKind, topic: str | None, directory: Location
    ) -> Iterator[QueueFiles]:
        if (queues := self._topic_queues.get((kind, directory))) is None:
            places = list_directories(directory, self.base, self.listing)[0]
            numbered = {queue_id_of(place.name): place for place in places}
            queues = self._topic_queues[kind, directory] = [
                QueueFiles(kind, topic, queue_id, numbered[queue_id], self.base, None, self.listing)
                for queue_id in sorted(number for number in numbered if number is not None)
            ]
        yield from queues


def queue_id_of(name: str) -> int | None:
    """Return the queue id of a directory name, in the only form that a broker writes.

    It makes directories by ``String.valueOf`` and reads them by ``Integer#parseInt``, also for records with a
    negative queue id (``DefaultMessageStore#loadConsumeQueue``, 4.9.8; ``ConsumeQueueStore``, 5.3.3).
    """
    if not _QUEUE_ID.fullmatch(name):
        return None
    number = int(name)
    return number if -_LARGEST_INT - 1 <= number <= _LARGEST_INT else None


def store_file(path: Location, base: Location) -> StoreFile:
    """Return one regular file as a file of the store; `EnvironmentFailureError` if it is not one."""
    return StoreFile(path, label_of(path, base), _size_of(path))


def single_file_queue(path: Location, base: Location) -> FileQueue:
    """Return a file queue of one regular file, which starts where its name says, else at 0."""
    start = digits_of(path.name, NAME_DIGITS)
    segment = Segment(path, label_of(path, base), _size_of(path), start or 0, framing_in(path.parent))
    return FileQueue((path.parent,), (segment,))


def _size_of(path: Location) -> int:
    status = path.status()
    if status is None or status.kind is not FileKind.FILE:
        said = "no longer exists" if status is None else f"is {status.kind}, not a regular file"
        raise EnvironmentFailureError(f"{path}: {said}")
    return status.size_bytes
