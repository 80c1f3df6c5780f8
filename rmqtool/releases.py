"""RELEASES: rules of each released broker for the files of a store, one field for every rule that changed.

Each release is the one before it with what it changed, so this page is the history of the format and of the
broker's rules. Rules elsewhere read a field, never a version. A new release needs a row here.

Compared: 4.9.8, 5.3.3, 5.3.4, 5.4.0, 5.5.0 and 5.5.1 (`fixtures/make/compare_releases.py`). Methods that
rules cite and that changed without an effect on files, and so without a row here:

* 5.3.4: ``DefaultMessageStore#load``, ``#start`` and ``ConsumeQueue#putMessagePositionInfo`` let a state
  machine choose what they write to the broker's own log; ``MappedFileQueue#doLoad``,
  ``DefaultMappedFile#init`` and ``#appendMessage`` pass ``writeWithoutMmap`` on;
  ``DefaultMessageStore#deleteTopics`` calls others.
* 5.5.1: ``ConsumeQueue#correctMinOffset`` goes on where the min offset is the end of the queue and finds no
  unit there, and resets both offsets of a queue without files to those of a new one;
  ``CommitLog#checkMessageAndReturnSize`` uses an array again (``maxCheckMessageReuseBufferSize``), so that a
  part longer than its record may fail in another way, with the same end of the log;
  ``DefaultAppendMessageCallback#doAppend`` takes the offsets of light queues itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rmqtool.errors import UsageError
from rmqtool.topics import RETRY_PREFIX, SYSTEM_PREFIX


class CleanStart(StrEnum):
    """Place where a start without ``abort`` begins to read the log (``CommitLog#recoverNormally``)."""

    THIRD_LAST = "third-last"  # up to 5.3.1
    BY_QUEUES = "by-queues"  # 5.3.2, 5.3.3: the newest file that begins at or before the end of the queues
    BY_FIRST_RECORD = "by-first-record"  # 5.3.4+: the newest whose first record names its place


class UncleanStart(StrEnum):
    """Match of a file after a crash (``ConsumeQueueStore#isMappedFileMatchedRecover``)."""

    BY_TIME = "by-time"  # first record's store time against min(physic, logics) - 3 s
    BY_OFFSET = "by-offset"  # 5.5.0+: its offset against logicsPhysicalOffset, else its time against logics


class RecordRules(NamedTuple):
    """Differences between brokers, and between them and an examiner, when a record is read.

    Attributes:
        checks_room: TOTALSIZE is compared with the bytes left before the magic is read (5.3.2+).
        knows_v2: V2 records, with topics over 127 bytes, are read (5.1.0+).
        knows_inner_batch: INNER_NUM and INNER_BASE are parsed (5.0.0+).
        requires_numbers: a property that should be a number but is not makes the record fail (every broker).
        refuses_negative_size: a negative TOTALSIZE fails before the magic is read; older brokers take one
            with the magic of an end mark for an end mark (5.5.1+).
        kept_array: hosts, topic and properties are read into an array that a thread keeps at the largest
            TOTALSIZE it met, up to this many bytes; other brokers make one of TOTALSIZE bytes, as this one
            does for a longer record (5.5.1+, ``CommitLog#borrowCheckMessageBuffer``; the default of
            ``maxCheckMessageReuseBufferSize``; ``Settings.rules_of`` has the set value).
    """

    checks_room: bool = True
    knows_v2: bool = True
    knows_inner_batch: bool = True
    requires_numbers: bool = True
    refuses_negative_size: bool = False
    kept_array: int = 0


LENIENT = RecordRules(checks_room=False, requires_numbers=False)
"""For reading evidence: everything that can be decoded is a record."""


class Release(NamedTuple):
    """The rules of one released broker.

    Attributes:
        name: the release.
        line: the line that users know it by, ``4.9`` or ``5.x``.
        records: how records are read.
        batch_queues: topics can have batch consume queues (5.0.0+).
        skips_slash: multi-dispatch names with a path separator are skipped (5.1.2+).
        no_multi_dispatch: prefixes of topics whose messages go to no further queue, as do none of
            SCHEDULE_TOPIC_XXXX itself (5.1.1+, ``MultiDispatchUtils#isNeedHandleMultiDispatch``). A broker of
            5.5 assigns no offsets to dead letters, which shows in the record; those that have some it
            dispatches as ever.
        tag_items: the index has an item for TAGS (5.4.0+, ``IndexService#buildIndex``).
        new_index_count: indexCount of an index file that is created and not used.
        deletes_empty_last_file: an empty last file is deleted at start, and directories are skipped; older
            brokers refuse both (5.1.3+, ``MappedFileQueue#doLoad``).
        refuses_unreadable_index: an index file that cannot be opened as one stops the start; older brokers go
            on without it and all that follow (5.x).
        halves_for_minimum: the min offset of a queue is searched by halving (5.x,
            ``ConsumeQueue#correctMinOffset``).
        delay_table_after_recovery: recovery does not know messageDelayLevel yet (up to 4.9.8).
        reputs_from_queues: reput goes on where the queues end, while the store starts (4.9).
        clean_start: where a start without ``abort`` begins.
        unclean_start: where one with ``abort`` begins.
        first_record_must_parse: a file matches only if its first record parses, CRC included (5.3.4+,
            ``CommitLog#isMappedFileMatchedRecover``).
        truncates_by_new_end: queues are truncated if they reach the log's end once recovery has dispatched;
            older brokers compare with where they ended before (5.3.4+, ``ConsumeQueueStore#truncateDirty``).
        rocksdb: the version of RocksDB in ``rocksdbstore/OPTIONS-*`` (5.4.0+).
        recover_window: at most ``commitLogRecoverMaxNum`` files are walked back (5.4.0+,
            ``CommitLog#recoverNormally``, ``#recoverAbnormally``).
        needs_last_unit: the start fails if a queue's last file has no unit when its min offset is corrected
            (5.0.0 to 5.4.0, ``ConsumeQueue#correctMinOffset``).
        accelerated_recovery: ``enableAcceleratedRecovery`` means queues in files, too (5.5.0+,
            ``ConsumeQueueStore#getDispatchFromPhyOffset``, ``CommitLog#recoverAbnormally``).
        checks_stored_offset: knows ``checkCommitLogOffsetOnRecover`` (5.5.0+,
            ``CommitLog#recoverAbnormally``).
        distrusts_blank_config: a file of settings that holds nothing but white space, or ``[]``, cannot be
            decoded, so that its ``.bak`` is taken, and one that cannot be decoded is deleted; older brokers
            take it for one without entries (5.4.0+, ``ConfigManager#load``).
        verifies_property: knows ``forceVerifyPropCRC`` (5.2.0+, ``CommitLog#checkMessageAndReturnSize``).
        trims_conf: blanks after a text in the broker's file are cut off; no broker cuts them off numbers and
            booleans (5.2.0+, ``MixAll#properties2Object``).
        keeps_ha_port: ``haListenPort`` counts; older brokers take the listening port and one
            (5.x, ``BrokerStartup#buildBrokerController``).
        writes_whole_pages: with ``writeWithoutMmap`` a record is written together with the content of the
            buffer up to the next page of the file (5.5.0+, ``DefaultMappedFile``).
    """

    name: str
    line: str
    records: RecordRules = RecordRules(checks_room=False, knows_v2=False, knows_inner_batch=False)
    batch_queues: bool = False
    skips_slash: bool = False
    no_multi_dispatch: tuple[str, ...] = ()
    tag_items: bool = False
    new_index_count: int = 0
    deletes_empty_last_file: bool = False
    refuses_unreadable_index: bool = False
    halves_for_minimum: bool = False
    delay_table_after_recovery: bool = True
    reputs_from_queues: bool = True
    clean_start: CleanStart = CleanStart.THIRD_LAST
    unclean_start: UncleanStart = UncleanStart.BY_TIME
    first_record_must_parse: bool = False
    truncates_by_new_end: bool = False
    recover_window: bool = False
    needs_last_unit: bool = False
    accelerated_recovery: bool = False
    checks_stored_offset: bool = False
    verifies_property: bool = False
    distrusts_blank_config: bool = False
    trims_conf: bool = False
    keeps_ha_port: bool = False
    writes_whole_pages: bool = False
    rocksdb: str = ""


_4_9_8 = Release("4.9.8", "4.9")
_5_3_3 = _4_9_8._replace(
    name="5.3.3",
    line="5.x",
    records=RecordRules(),
    batch_queues=True,
    skips_slash=True,
    no_multi_dispatch=(RETRY_PREFIX, SYSTEM_PREFIX),
    new_index_count=1,
    deletes_empty_last_file=True,
    refuses_unreadable_index=True,
    halves_for_minimum=True,
    delay_table_after_recovery=False,
    reputs_from_queues=False,
    verifies_property=True,
    trims_conf=True,
    keeps_ha_port=True,
    clean_start=CleanStart.BY_QUEUES,
    needs_last_unit=True,
)
_5_3_4 = _5_3_3._replace(
    name="5.3.4",
    clean_start=CleanStart.BY_FIRST_RECORD,
    first_record_must_parse=True,
    truncates_by_new_end=True,
)
_5_4_0 = _5_3_4._replace(
    name="5.4.0",
    tag_items=True,
    recover_window=True,
    distrusts_blank_config=True,
    rocksdb="8.4.0",
)
_5_5_0 = _5_4_0._replace(
    name="5.5.0",
    unclean_start=UncleanStart.BY_OFFSET,
    needs_last_unit=False,
    accelerated_recovery=True,
    checks_stored_offset=True,
    writes_whole_pages=True,
    rocksdb="8.4.4",
)
_5_5_1 = _5_5_0._replace(name="5.5.1", records=RecordRules(refuses_negative_size=True, kept_array=1 << 20))

RELEASES: dict[str, Release] = {
    release.name: release for release in (_4_9_8, _5_3_3, _5_3_4, _5_4_0, _5_5_0, _5_5_1)
}
"""The releases whose rules are known, oldest first, by name."""

OLDEST, NEWEST = _4_9_8, _5_5_1
DEFAULT = _5_3_3
"""The release whose rules count where nothing in a store shows one."""

LINES: dict[str, Release] = {"4.9": _4_9_8, "5.x": _5_3_3}
"""Names of lines that users may give instead of a release; each means the newest that its sign covers."""


def release_named(name: str) -> Release:
    """Return a release by its name, or the one of a line; a UsageError lists the known ones."""
    release = RELEASES.get(name) or LINES.get(name)
    if release is None:
        raise UsageError(f"broker version {name!r}: give one of {', '.join((*LINES, *RELEASES))}")
    return release
