"""Parts of a store that are named and not examined; where one may hold the log or queues, settings decide."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Structure
from rmqtool.findings.codes import ST_DLEDGER, ST_ONE_PATH, ST_ROCKSDB, ST_ROCKSDB_BESIDE
from rmqtool.store.places import (
    DATABASE,
    FILE_QUEUES,
    PLACES,
    QUEUE_DATABASES,
    ROCKSDB_STORE,
    has_queue_files,
    holds,
)
from rmqtool.store.setting import DEFINITIONS, Origin
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.findings import FindingCode
    from rmqtool.io import Location
    from rmqtool.store.segments import FileQueue
    from rmqtool.store.settings import Settings

_SETTINGS_DATABASES = ("config/topics", "config/consumerOffsets", "config/metadata")
"""Databases that only ``storeType=defaultRocksDB`` makes (``BrokerController#<init>``, 5.1.4+)."""
_ROWS = re.compile(r"[0-9]{6,}\.(log|sst|blob)")
_ROCKSDB_TYPE = "defaultRocksDB"
_LIGHT = "which alone holds the light queues (combineCQUseRocksdbForLmq)"
_PERHAPS_LIGHT = "which may alone hold the light queues: give combineCQUseRocksdbForLmq"
_ALONE = "the only form of the queues that is here"
_UNSETTLED = "or beside them: the broker's settings (-c broker.conf) say which queues it reads"
_FEWEST_GAPS = 2
"""Equal gaps from which on a log is taken as one of several directories' parts."""
_LISTED = 100
"""Places of one row that are reported singly."""


@dataclass(frozen=True, slots=True)
class Feature:
    """Something in the store that is recognised by its name and left alone.

    ``unread`` is ``UNREAD_LOG`` where it holds the log or a part of it, ``UNREAD`` where it alone holds
    queues, None where the rest is complete without it. With ``light_only`` those are light queues. ``note``
    says why it counts.
    """

    code: FindingCode
    label: str
    is_empty: bool = False
    unread: Structure | None = None
    light_only: bool = False
    note: str = ""

    @property
    def sentence(self) -> str:
        """Return a description: label, title and note."""
        return f"{self.label}: {self.code.title}{f', {self.note}' if self.note else ''}"

    @property
    def unshown(self) -> str:
        """Return the warning of a command that shows the store's content."""
        return f"{self.label}: {self.code.title}; its content is not shown"


def features_of(root: Location, settings: Settings) -> tuple[Feature, ...]:
    """Return the places that a store root has, or should have, beside the examined structures."""
    found = []
    for place in PLACES:
        if place.code is not None:
            for path in islice(place.found_in(root), _LISTED):
                is_empty = place.path == ROCKSDB_STORE and not _has_rows(path)
                unread = Structure.UNREAD_LOG if place.code is ST_DLEDGER else None
                found.append(Feature(place.code, path.relative_to(root), is_empty, unread))
    queues = [one for one in found if one.label in QUEUE_DATABASES]
    others = [one for one in found if one.label not in QUEUE_DATABASES]
    if settings["enableDLegerCommitLog"].value and not any(one.code is ST_DLEDGER for one in found):
        label = f"dledger-{settings['dLegerSelfId'].value or '*'}"
        note = "which enableDLegerCommitLog requires, is missing"
        others.insert(0, Feature(ST_DLEDGER, label, unread=Structure.UNREAD_LOG, note=note))
    return (*_queue_features(root, settings, queues), *others)


def _queue_features(root: Location, settings: Settings, databases: list[Feature]) -> Iterator[Feature]:
    """Yield places of queues that are not read; settings decide which of two forms consumers see.

    Java: ``DefaultMessageStore#createConsumeQueueStore`` (5.3.3), ``CombineConsumeQueueStore`` (5.3.4+).
    """
    has_files = has_queue_files(root / FILE_QUEUES)
    note = _why_unread(root, settings, has_files=has_files, has_database=bool(databases))
    light_only = note in {_LIGHT, _PERHAPS_LIGHT}
    if not databases and note:
        yield Feature(
            ST_ROCKSDB, FILE_QUEUES, unread=Structure.UNREAD, light_only=light_only, note=f"{note}, not here"
        )
    if not databases and not note and _wants_database(settings):
        yield Feature(ST_ROCKSDB_BESIDE, FILE_QUEUES, note="which the settings require, is missing")
    for one in databases:
        if note:
            yield replace(one, unread=Structure.UNREAD, light_only=light_only, note=note)
        elif (root / "abort").status() is None and not _has_rows(
            root / one.label
        ):  # a clean stop flushes rows
            yield replace(one, unread=Structure.UNREAD, note="its tables (.sst) are missing")
        else:
            yield replace(one, code=ST_ROCKSDB_BESIDE)


def _wants_database(settings: Settings) -> bool:
    """Return whether settings name a database of queues beside the files, or a use of one."""
    names_light = settings["combineCQUseRocksdbForLmq"]
    is_given = names_light.origin is Origin.GIVEN and bool(names_light.value)
    prefers = settings["combineCQPreferCQType"].value == _ROCKSDB_TYPE
    return bool(settings["rocksdbCQDoubleWriteEnable"].value) or is_given or prefers


def _why_unread(root: Location, settings: Settings, *, has_files: bool, has_database: bool) -> str:
    """Return why the file queues do not hold all that consumers see; empty where they do."""
    reads, writes_both = settings["storeType"], settings["rocksdbCQDoubleWriteEnable"].value
    light = settings["combineCQUseRocksdbForLmq"]
    is_open = reads.origin is not Origin.GIVEN and not settings.has_conf
    prefers = writes_both and settings["combineCQPreferCQType"].value == _ROCKSDB_TYPE
    made_by = next((one for one in _SETTINGS_DATABASES if holds(root / one, DATABASE)), None)
    reasons = (
        (reads.value == _ROCKSDB_TYPE, f"which storeType={_ROCKSDB_TYPE} reads"),
        (prefers, f"which combineCQPreferCQType={_ROCKSDB_TYPE} reads"),
        (writes_both and light.value, _LIGHT),
        (has_database and not has_files, _ALONE),
        (has_database and not writes_both and is_open, _UNSETTLED),
        (has_database and writes_both and _may_hold_light(root, settings), _PERHAPS_LIGHT),
        (made_by and is_open and not has_database, f"which a broker with {made_by}/ reads"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _may_hold_light(root: Location, settings: Settings) -> bool:
    """Whether light queues may be in the database alone (5.5.0+), as no file has any."""
    setting = settings["combineCQUseRocksdbForLmq"]
    is_known = DEFINITIONS[setting.name].is_known_to(settings.release)
    if not is_known or setting.origin is Origin.GIVEN or settings.has_conf:
        return False
    return not any((root / FILE_QUEUES).matching(f"{LMQ_PREFIX}*"))


def split_log(log: FileQueue) -> Iterator[Feature]:
    """Yield a log that is one part of several directories: its files lie apart by equal gaps.

    Java: ``MultiPathMappedFileQueue#tryCreateMappedFile`` (4.9.2+): file k lies in directory k mod n.
    """
    gaps = list(log.gaps())
    strides = {(gap.found - gap.after.start, gap.after.size_bytes) for gap in gaps}
    if len(gaps) < _FEWEST_GAPS or len(gaps) < len(log) - 1 or len(strides) > 1:
        return
    stride, size = strides.pop()
    if size > 0 and stride > size and stride % size == 0:
        note = f"1 of {stride // size} (storePathCommitLog): the files between are in the others"
        yield Feature(ST_ONE_PATH, log.segments[0].path.parent.name, unread=Structure.UNREAD_LOG, note=note)


def _has_rows(directory: Location) -> bool:
    """Whether any row was ever written into a database; True where that is unknown.

    Rows are in tables and in the write-ahead log; what an empty database writes into its MANIFEST is not a
    row.
    """
    try:
        return any(_ROWS.fullmatch(name) and status.size_bytes > 0 for name, status in directory.entries())
    except EnvironmentFailureError:
        return True
