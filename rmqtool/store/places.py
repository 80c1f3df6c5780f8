"""Places in a store beside the examined structures: other forms of log and queues, compaction.

Where a place may hold the log or queues, settings decide (`features_of`). Of compaction files, on which a
start depends, names are compared.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, FindingCode, Structure, codes
from rmqtool.io import FileKind, Location
from rmqtool.store.broker_conf import DEFINITIONS, Origin
from rmqtool.store.kinds import (
    DATABASE,
    FILE_QUEUES,
    PLACES,
    QUEUE_DATABASES,
    ROCKSDB_STORE,
    has_queue_files,
    holds,
)
from rmqtool.store.layouts import (
    BESIDE,
    DLEDGER_LOG,
    LIGHT_QUEUES_IN_ROCKSDB,
    LOG_ON_OTHER_PATHS,
    QUEUES_IN_ROCKSDB,
    QUEUES_TWICE,
    UNREAD_DLEDGER_LOG,
    Deed,
    Layout,
)
from rmqtool.store.ledger import DATA, progress_of
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rmqtool.io.source import Status
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
"""Equal gaps from which on a log is taken as one of several directories' parts, whatever settings name."""
_LISTED = 100
"""Places of one row that are reported singly."""


class Feature(NamedTuple):
    """Something in the store that is recognised by its name and left alone.

    ``layout`` says what a command can do beside it, ``note`` why it counts.
    """

    code: FindingCode
    label: str
    is_empty: bool = False
    layout: Layout = BESIDE
    note: str = ""

    @property
    def unread(self) -> Structure | None:
        """The part of the store that counts as not read; None where the rest is complete without it."""
        return self.layout.unread

    def refusal(self, deed: Deed, purpose: str = "") -> str:
        """Return why something is not done with the store."""
        return self.sentence + deed.value.format(purpose=purpose)

    @property
    def is_shown(self) -> bool:
        """Whether commands that show a store's content show that of this part."""
        return self.layout.is_shown

    @property
    def sentence(self) -> str:
        """Return a description: label, title and note."""
        return f"{self.label}: {self.code.title}{f', {self.note}' if self.note else ''}"

    @property
    def unshown(self) -> str:
        """Return the warning of a command that shows the store's content."""
        return f"{self.label}: {self.code.title}; its content is not shown"


def features_of(root: Location, settings: Settings, log: Collection[Location]) -> tuple[Feature, ...]:
    """Return the places that a store root has, or should have, beside the examined structures.

    ``log`` has the directories that are read as its log.
    """
    features = []
    for place in PLACES:
        if place.code is not None:
            paths = list(islice(place.found_in(root), _LISTED))
            for path in paths:
                if place.code is codes.ST_DLEDGER:
                    is_read = path / DATA in log
                    features.append(_ledger_feature(path, root, is_read=is_read, is_alone=len(paths) == 1))
                    continue
                is_empty = place.path == ROCKSDB_STORE and not _has_rows(path)
                features.append(Feature(place.code, path.relative_to(root), is_empty))
    queues = [feature for feature in features if feature.label in QUEUE_DATABASES]
    others = [feature for feature in features if feature.label not in QUEUE_DATABASES]
    if settings["enableDLegerCommitLog"].value and not any(
        feature.code in {codes.ST_DLEDGER, codes.ST_DLEDGER_LOG} for feature in features
    ):
        label = f"dledger-{settings['dLegerSelfId'].value or '*'}"
        note = "which enableDLegerCommitLog requires, is missing"
        others.insert(0, Feature(codes.ST_DLEDGER, label, layout=UNREAD_DLEDGER_LOG, note=note))
    return (*_queue_features(root, settings, queues), *others)


_SEVERAL = "one of several members here: copy each into a directory of its own, or give -p dLegerSelfId=ID"


def _ledger_feature(path: Location, root: Location, *, is_read: bool, is_alone: bool) -> Feature:
    label = path.relative_to(root)
    if is_read:
        note = progress_of(path).sentence
        return Feature(codes.ST_DLEDGER_LOG, label, layout=DLEDGER_LOG, note=note)
    note = "" if is_alone else _SEVERAL
    return Feature(codes.ST_DLEDGER, label, layout=UNREAD_DLEDGER_LOG, note=note)


def _queue_features(root: Location, settings: Settings, databases: list[Feature]) -> Iterator[Feature]:
    """Yield places of queues that are not read; settings decide which of two forms consumers see.

    Java: ``DefaultMessageStore#createConsumeQueueStore`` (5.3.3), ``CombineConsumeQueueStore`` (5.3.4+).
    """
    is_alone = bool(databases) and not has_queue_files(root / FILE_QUEUES)
    note = _why_unread(root, settings, is_alone=is_alone, has_database=bool(databases))
    layout = LIGHT_QUEUES_IN_ROCKSDB if note in {_LIGHT, _PERHAPS_LIGHT} else QUEUES_IN_ROCKSDB
    if not databases and note:
        yield Feature(codes.ST_ROCKSDB, FILE_QUEUES, layout=layout, note=f"{note}, not here")
    if not databases and not note and _wants_database(settings):
        note = "which the settings require, is missing"
        yield Feature(codes.ST_ROCKSDB_BESIDE, FILE_QUEUES, layout=QUEUES_TWICE, note=note)
    for database in databases:
        if note:
            yield database._replace(layout=layout, note=note)
        elif (root / "abort").status() is None and not _has_rows(
            root / database.label
        ):  # a clean stop flushes rows
            yield database._replace(layout=QUEUES_IN_ROCKSDB, note="its tables (.sst) are missing")
        else:
            yield database._replace(code=codes.ST_ROCKSDB_BESIDE, layout=QUEUES_TWICE)


def _wants_database(settings: Settings) -> bool:
    """Return whether settings name a database of queues beside the files, or a use of one."""
    names_light = settings["combineCQUseRocksdbForLmq"]
    is_given = names_light.origin is Origin.GIVEN and bool(names_light.value)
    prefers = settings["combineCQPreferCQType"].value == _ROCKSDB_TYPE
    return bool(settings["rocksdbCQDoubleWriteEnable"].value) or is_given or prefers


def _why_unread(root: Location, settings: Settings, *, is_alone: bool, has_database: bool) -> str:
    """Return why the file queues do not hold all that consumers see; empty where they do."""
    reads, writes_both = settings["storeType"], settings["rocksdbCQDoubleWriteEnable"].value
    light = settings["combineCQUseRocksdbForLmq"]
    is_open = reads.origin is not Origin.GIVEN and not settings.has_conf
    prefers = writes_both and settings["combineCQPreferCQType"].value == _ROCKSDB_TYPE
    made_by = next((database for database in _SETTINGS_DATABASES if holds(root / database, DATABASE)), None)
    reasons = (
        (reads.value == _ROCKSDB_TYPE, f"which storeType={_ROCKSDB_TYPE} reads"),
        (prefers, f"which combineCQPreferCQType={_ROCKSDB_TYPE} reads"),
        (writes_both and light.value, _LIGHT),
        (is_alone, _ALONE),
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


def split_log(log: FileQueue, settings: Settings) -> Iterator[Feature]:
    """Yield a log that is one part of several directories: its files lie apart by equal gaps.

    A single gap shows that only where settings name more directories than are there, and just as many as fit.

    Java: ``MultiPathMappedFileQueue#tryCreateMappedFile`` (4.9.2+): file k lies in directory k mod n.
    """
    gaps = list(log.gaps())
    strides = {(gap.found - gap.after.start, gap.after.size_bytes) for gap in gaps}
    if not gaps or len(gaps) < len(log) - 1 or len(strides) > 1:
        return
    stride, size = strides.pop()
    if size <= 0 or stride <= size or stride % size:
        return
    parts, paths = stride // size, str(settings["storePathCommitLog"].value or "").split(",")
    directories = sum(directory.is_directory() for directory in log.directories)
    if len(gaps) >= _FEWEST_GAPS or (parts == len(paths) > directories):
        note = f"1 of {parts} (storePathCommitLog): the files between are in the others"
        label = log.segments[0].path.parent.name
        yield Feature(codes.ST_ONE_PATH, label, layout=LOG_ON_OTHER_PATHS, note=note)


def _has_rows(directory: Location) -> bool:
    """Whether any row was ever written into a database; True where that is unknown.

    Rows are in tables and in the write-ahead log; what an empty database writes into its MANIFEST is not a
    row.
    """
    try:
        return any(_ROWS.fullmatch(name) and status.size_bytes > 0 for name, status in directory.entries())
    except EnvironmentFailureError:
        return True


COMPACTION_LOGS, COMPACTION_QUEUES = "compaction/compactionLog", "compaction/compactionCq"


def compaction_findings(root: Location) -> Iterator[Finding]:
    """Yield the findings about names of compaction files, as far as they may be listed."""
    for label, reason in _unpaired_compaction(root):
        yield Finding(code=codes.ST_COMPACTION_PAIRS, file=label, message=f"{label} {reason}")


def _unpaired_compaction(root: Location) -> Iterator[tuple[str, str]]:
    """Yield the files of compaction topics that lack their partner, relative to the root, and why.

    Each file of a log needs one of the same name in its queue, named by a number
    (``CompactionLog.TopicPartitionLog#sanityCheck``). Queues without a log are not examined.
    """
    for topic in names_in(root / COMPACTION_LOGS, FileKind.DIRECTORY):
        for queue in names_in(root / COMPACTION_LOGS / topic, FileKind.DIRECTORY):
            sides = [f"{side}/{topic}/{queue}" for side in (COMPACTION_LOGS, COMPACTION_QUEUES)]
            names = [names_in(root / side, FileKind.FILE) for side in sides]
            for side, own, others in ((sides[0], *names), (sides[1], *reversed(names))):
                for name in sorted(own):
                    if not name.isdecimal():
                        yield f"{side}/{name}", "is named by no number: a compaction left it that was stopped"
                    elif name not in others:
                        other = sides[side == sides[0]]
                        yield f"{side}/{name}", f"has no file of its name in {other}"


def names_in(directory: Location, kind: FileKind) -> set[str]:
    """Return the names of one kind in a directory; none where it may not be listed."""
    return {name for name, status in entries_in(directory) if status.kind is kind}


def entries_in(directory: Location) -> list[tuple[str, Status]]:
    """Return the entries of a directory; nothing where it may not be listed: IO-DENIED reports that."""
    if directory.kind() is not FileKind.DIRECTORY:
        return []
    try:
        return list(directory.entries())
    except EnvironmentFailureError:
        return []
