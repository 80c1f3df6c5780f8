"""The walk through a store that makes its skeleton: the log first, then what its hashes are needed for."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.config_files import disguised_config
from rmqtool.commands.metadump.disguise import Disguise
from rmqtool.commands.metadump.fitting import HashTable, LookUp
from rmqtool.commands.metadump.index_files import write_index_file
from rmqtool.commands.metadump.log_files import LogFile
from rmqtool.commands.metadump.queue_files import (
    write_extension,
    write_noise,
    write_units,
)
from rmqtool.commands.metadump.tree import Place, is_queue_file, new_parts, places_of
from rmqtool.errors import RefusedError, UsageError
from rmqtool.formats.checkpoint import CHECKPOINTS
from rmqtool.formats.consumequeue import BATCH_UNITS, UNITS
from rmqtool.formats.timer import TIMER_CHECKPOINTS
from rmqtool.io.source import Kind
from rmqtool.store import PathKind
from rmqtool.store.listing import digits_of
from rmqtool.store.segments import NAME_DIGITS, Segment
from rmqtool.store.staged_file import failure_of
from rmqtool.store.staging import StagingArea

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from rmqtool.progress import Progress
    from rmqtool.store import Store
    from rmqtool.store.staged_file import StagedFile

_KEY_BYTES = 32
_LARGEST_CONFIG = 64 << 20
_TIMER_CHECK_BYTES = TIMER_CHECKPOINTS.size + 24
"""With the version of the metrics after it."""
_LOCK = b"lock"
_DIGITS = re.compile(rb"[0-9]*")
_ROCKSDB_VERSION = re.compile(rb"\s*rocksdb_version=[0-9.]+\s*")
_CONFIG_NAME = re.compile(r"\w+\.json(\.bak|\.tmp)?|timermetrics|transactionMetrics")


@dataclass
class Skeleton:
    """What was made.

    Attributes:
        out: The directory.
        files: Files in it.
        bytes: Their sizes; most of it are holes.
        left_out: Places that are not in it, and why.
    """

    out: Path
    files: int = 0
    bytes: int = 0
    left_out: list[str] = field(default_factory=list)


def make_skeleton(store: Store, out: Path, progress: Progress, key: bytes | None = None) -> Skeleton:
    """Make a skeleton of a store: all its structures and damage, none of its contents.

    Args:
        store: A whole store.
        out: The directory to make; complete or not at all.
        progress: Told how far it is.
        key: What replacements follow from; by default a new one, which nobody gets to know.

    Raises:
        UsageError: It is a part of a store only.
        RefusedError: ``out`` exists, or lies in the store.
        EnvironmentFailureError: Something cannot be read or written.
    """
    if store.kind is not PathKind.STORE or store.root is None:
        raise UsageError(f"{store.place.path}: a skeleton is made of a whole store, not of a part of one")
    if out.exists() or out.is_symlink():
        raise RefusedError(f"{out}: exists; remove it or give --metadump another name")
    store.base.source.fetch_tails()
    disguise = Disguise(secrets.token_bytes(_KEY_BYTES) if key is None else key)
    with StagingArea(out, store.evidence_roots) as staging:
        skeleton = _Maker(store, staging, disguise, progress).run()
        staging.publish()
    return skeleton


class _Maker:
    """Makes the files of one skeleton.

    Args:
        store: The store.
        staging: Receives them.
        disguise: Replaces names.
        progress: Told how far it is.
    """

    def __init__(self, store: Store, staging: StagingArea, disguise: Disguise, progress: Progress) -> None:
        self._store, self._staging, self._disguise, self._progress = store, staging, disguise, progress
        self._skeleton = Skeleton(staging.out)
        self._tags = HashTable(staging.handle.create_block("tags"))
        self._keys = HashTable(staging.handle.create_block("keys"))
        self._index = {file.label: file for file in store.index_files}
        self._tag_codes: LookUp | None = None
        self._key_hashes: LookUp | None = None
        self._queue: tuple[str, ...] = ()
        self._addresses: dict[int, list[int]] = {}

    def run(self) -> Skeleton:
        """Go through the store."""
        places = sorted(self._places(), key=lambda place: place.order)
        total = sum(place.status.size_bytes for place in places if place.status.kind is Kind.FILE)
        self._progress.stage("metadump", total)
        done = 0
        for place in places:
            if place.parts[0] != "commitlog" and self._tag_codes is None:
                self._end_log()
            self._put(place)
            done += place.status.size_bytes if place.status.kind is Kind.FILE else 0
            self._progress.advance(done)
        self._end_log()
        self._put_directory_times(places)
        return self._skeleton

    def _places(self) -> Iterable[Place]:
        root = self._store.root
        assert root is not None
        yield from places_of(root)
        for directory in self._store.commitlog.directories:
            if not directory.is_relative_to(root):
                yield from places_of(directory, ("commitlog",))

    def _end_log(self) -> None:
        if self._tag_codes is None:
            self._tag_codes, self._key_hashes = self._tags.finish(), self._keys.finish()

    def _path(self, place: Place) -> Path:
        return self._staging.handle.result.joinpath(*new_parts(place.parts, self._disguise))

    def _put(self, place: Place) -> None:
        kind = place.status.kind
        if kind is Kind.FILE:
            self._put_file(place)
        elif kind is not Kind.HIDDEN:
            try:
                self._put_other(place, kind)
            except OSError as failure:
                raise failure_of(failure, self._path(place)) from failure
        else:
            self._skeleton.left_out.append(f"{place.location}: {place.status.reason}")

    def _put_other(self, place: Place, kind: Kind) -> None:
        path = self._path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind is Kind.DIRECTORY:
            path.mkdir(exist_ok=True)
        elif kind is Kind.LOST:
            path.symlink_to("nowhere")
        else:
            os.mkfifo(path)  # a device or a socket becomes one, too: nobody reads either

    def _put_file(self, place: Place) -> None:
        size = place.status.size_bytes
        relative = "/".join(new_parts(place.parts, self._disguise))
        with self._staging.create_file(relative, size) as target:
            self._writer(place)(place, target)
        os.utime(target.path, ns=(place.status.modified_ns, place.status.modified_ns))
        self._skeleton.files += 1
        self._skeleton.bytes += size

    def _writer(self, place: Place) -> Callable[[Place, StagedFile], None]:
        parts = place.parts
        if parts[0] == "commitlog" and len(parts) == 2:
            return self._log_file
        if place.label in self._index:
            return self._index_file
        if is_queue_file(parts):
            return self._extension if parts[0] == "consumequeue_ext" else self._units
        if parts[0] == "config" and _CONFIG_NAME.fullmatch(parts[-1]) and len(parts) == 2:
            return self._config
        by_label = {
            "checkpoint": self._checkpoint,
            "config/timercheck": self._timer_check,
            "abort": self._number,
            "abort.bak": self._number,
            "lock": self._lock,
        }
        if parts[0] == "rocksdbstore" and parts[-1].startswith("OPTIONS-"):
            return self._options
        return by_label.get(place.label, self._unknown)

    def _log_file(self, place: Place, target: StagedFile) -> None:
        size, start = place.status.size_bytes, digits_of(place.parts[-1], NAME_DIGITS)
        tables = None if start is None else (self._tags, self._keys)
        segment = Segment(place.location, place.label, size, start or 0)
        LogFile(segment, target, self._disguise, tables).run()
        segment.close()

    def _index_file(self, place: Place, target: StagedFile) -> None:
        assert self._key_hashes is not None
        file, geometry = self._index[place.label], self._store.settings.index_geometry
        write_index_file(file, geometry, target, self._key_hashes, self._disguise)

    def _units(self, place: Place, target: StagedFile) -> None:
        assert self._tag_codes is not None
        layout = (BATCH_UNITS if place.parts[0] == "batchconsumequeue" else UNITS).dtype
        with place.location.reader() as source:
            found = write_units(source, target, layout, place.label, self._tag_codes, self._disguise)
        if self._queue != place.parts[1:3]:
            self._queue, self._addresses = place.parts[1:3], {}
        for address, offsets in found.items():
            self._addresses.setdefault(address, []).extend(offsets)

    def _extension(self, place: Place, target: StagedFile) -> None:
        assert self._tag_codes is not None
        addresses = self._addresses if self._queue == place.parts[1:3] else {}
        start = digits_of(place.parts[-1], NAME_DIGITS) or 0
        with place.location.reader() as source:
            write_extension(source, target, place.label, start, addresses, self._tag_codes, self._disguise)

    def _config(self, place: Place, target: StagedFile) -> None:
        if place.status.size_bytes > _LARGEST_CONFIG:
            self._unknown(place, target)
            return
        made = disguised_config(place.location.read_head(_LARGEST_CONFIG), self._disguise)
        target.truncate(len(made))
        target.write_at(0, made)

    def _checkpoint(self, place: Place, target: StagedFile) -> None:
        self._keep_head(place, target, CHECKPOINTS.size)

    def _timer_check(self, place: Place, target: StagedFile) -> None:
        self._keep_head(place, target, _TIMER_CHECK_BYTES)

    def _keep_head(self, place: Place, target: StagedFile, length: int) -> None:
        """Keep what is numbers of the broker's own; the rest is not understood."""
        with place.location.reader() as source:
            target.write_at(0, source.read_at(0, length, []))
            write_noise(source, target, place.label, length, source.size_bytes(), self._disguise)

    def _number(self, place: Place, target: StagedFile) -> None:
        head = place.location.read_head(32)
        is_number = len(head) == place.status.size_bytes and _DIGITS.fullmatch(head)
        self._keep_head(place, target, len(head) if is_number else 0)

    def _lock(self, place: Place, target: StagedFile) -> None:
        """Write what every broker writes: opening the file could drop a lock that this process holds."""
        target.write_at(0, _LOCK[: place.status.size_bytes])

    def _options(self, place: Place, target: StagedFile) -> None:
        """Keep the version of RocksDB, by which the broker's release is told."""
        self._unknown(place, target)
        for match in _ROCKSDB_VERSION.finditer(place.location.read_head(4096)):
            target.write_at(match.start(), match[0])

    def _unknown(self, place: Place, target: StagedFile) -> None:
        with place.location.reader() as source:
            write_noise(source, target, place.label, 0, source.size_bytes(), self._disguise)

    def _put_directory_times(self, places: list[Place]) -> None:
        for place in reversed(places):
            if place.status.kind is Kind.DIRECTORY:
                modified_ns = place.status.modified_ns
                os.utime(self._path(place), ns=(modified_ns, modified_ns))
