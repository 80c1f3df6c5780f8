"""Sources of a report: versions, settings, digests and times of files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqtool.commands.report.model import FileDigest, FileTime, Provenance
from rmqtool.errors import EnvironmentFailureError
from rmqtool.io import FileKind, location_of, sha256_of
from rmqtool.store.listing import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.io import Location, UnreadableRange
    from rmqtool.progress import Progress
    from rmqtool.store import Store

_SMALL_BYTES = 8 << 20
"""A larger config file is named and not hashed."""

_MOST_FILES = 500
_NS_A_MS = 1_000_000


def provenance_of(
    store: Store,
    version: str,
    command: str,
    broker_conf: Path | None,
    progress: Progress,
    *,
    log: bool,
) -> Provenance:
    """Return the sources of a report; ``log`` hashes the log's files, too."""
    places = [(label_of(place, store.base), place) for place in _small_files(store)]
    if broker_conf is not None:
        places.append((str(broker_conf), location_of(broker_conf)))
    digests = [_digest(label, place, _SMALL_BYTES) for label, place in places[:_MOST_FILES]]
    if log:
        progress.stage("SHA-256 of the log", store.commitlog.size_bytes)
        done = 0
        for segment in store.commitlog:
            digests.append(_digest(segment.label, segment.path, None))
            done += segment.size_bytes
            progress.advance(done)
    return Provenance(
        version=version,
        command=command,
        made_ms=time.time_ns() // _NS_A_MS,
        settings={setting.name: setting for setting in store.settings},
        digests=tuple(digests),
    )


def file_times(store: Store) -> Iterator[FileTime]:
    """Yield when the files that a start reads were changed last, without those of queues."""
    places = [*_small_files(store), *(one.path for one in (*store.commitlog, *store.index_files))]
    if store.lock is not None:
        places.append(store.lock)
    for place in places:
        status = place.status()
        if status is not None and status.modified_ns:
            label = label_of(place, store.base)
            yield FileTime(label, status.size_bytes, status.modified_ns // _NS_A_MS)


def _small_files(store: Store) -> list[Location]:
    """Return the files beside log, queues and index that a start reads, and the settings."""
    found = [] if store.checkpoint is None else [store.checkpoint.path]
    found += [] if store.abort is None else [store.abort]
    if store.config is not None:
        try:
            names = [entry.name for entry in store.config.entries() if entry.status.kind is FileKind.FILE]
        except EnvironmentFailureError:
            names = []  # there is a finding
        found += [store.config / name for name in sorted(names)]
    return found


def _digest(label: str, place: Location, limit: int | None) -> FileDigest:
    """Return SHA-256 of a file, in pieces; none for one larger than ``limit``."""
    status = place.status()
    if status is None or status.kind is not FileKind.FILE:
        return FileDigest(label, 0, None, "gone" if status is None else f"is {status.kind}")
    if limit is not None and status.size_bytes > limit:
        return FileDigest(label, status.size_bytes, None, f"larger than {limit >> 20} MiB")
    unreadable: list[UnreadableRange] = []
    try:
        with place.reader() as source:
            digest, size_bytes = sha256_of(source, status.size_bytes, unreadable)
    except EnvironmentFailureError as failure:
        return FileDigest(label, status.size_bytes, None, str(failure))
    if unreadable:
        return FileDigest(label, status.size_bytes, None, "parts of it cannot be read")
    return FileDigest(label, size_bytes, digest)
