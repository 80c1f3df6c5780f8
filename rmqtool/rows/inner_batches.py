"""Inner batches unpacked: the messages that a producer put into one record, each a row of its own.

Source: ``PullAPIWrapper#processPullResult``, ``MessageDecoder#decodeMessage`` (5.3.3), which give every
message of a batch the fields of the record around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.findings import Structure
from rmqtool.findings.records import CL_INNER_BATCH
from rmqtool.formats.message import INNER_BATCH_FLAG
from rmqtool.javacompat import parse_int, split_keys, tags_hash, wrap_long
from rmqtool.rows.decompression import BodyError, decompress
from rmqtool.scan.inner_batch import BatchError, inner_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.rows.messages import MessageFilter
    from rmqtool.scan.inner_batch import InnerMessage


def with_inner_messages(found: Iterable[rows.Row], wanted: MessageFilter) -> Iterator[rows.Row]:
    """Yield rows, after every batch those of its messages that are wanted; bodies must be as stored.

    A batch is left out if neither it nor one of its messages has the tag and the key that are wanted.

    Raises:
        UsageError: A body needs a library for decompression that is not there.
    """
    for row in found:
        if not isinstance(row, rows.Message) or not row.sys_flag & INNER_BATCH_FLAG:
            yield row
            continue
        inner = [one for one in inner_rows(row) if _is_shown(one, wanted)]
        if inner or wanted.admits_names(row.properties):
            yield row
            yield from inner


def _is_shown(row: rows.InnerMessage | rows.Damage, wanted: MessageFilter) -> bool:
    return isinstance(row, rows.Damage) or wanted.admits_names(row.properties)


def inner_rows(batch: rows.Message) -> Iterator[rows.InnerMessage | rows.Damage]:
    """Yield the messages of a batch, decompressed if SYSFLAG says so, and what is wrong with it.

    Raises:
        UsageError: The body needs a library for decompression that is not there.
    """
    count = 0
    try:
        for one in inner_messages(decompress(batch.body, batch.sys_flag)):
            yield _inner_row(batch, one, count)
            count += 1
    except (BatchError, BodyError) as failure:
        yield _damage(batch, str(failure))
        return
    promised = parse_int(batch.properties.get("INNER_NUM", ""))
    if promised is not None and promised != count:
        yield _damage(batch, f"INNER_NUM is {promised}, the batch holds {count} messages")


def _damage(batch: rows.Message, reason: str) -> rows.Damage:
    log_offset = batch.physical_offset
    return rows.Damage(
        file=batch.file,
        position=batch.position,
        physical_offset=log_offset,
        length=batch.total_size,
        code=CL_INNER_BATCH,
        message=f"the inner batch at {log_offset}: {reason}",
        structure=Structure.COMMITLOG,
    )


def _inner_row(batch: rows.Message, one: InnerMessage, index: int) -> rows.InnerMessage:
    properties = one.properties
    return rows.InnerMessage(
        file=batch.file,
        position=batch.position,
        physical_offset=batch.physical_offset,
        index=index,
        batch_position=one.position,
        total_size=one.total_size,
        queue_id=batch.queue_id,
        flag=one.flag,
        queue_offset=wrap_long(batch.queue_offset + index),
        sys_flag=batch.sys_flag,
        born_timestamp_ms=batch.born_timestamp_ms,
        born_host=batch.born_host,
        store_timestamp_ms=batch.store_timestamp_ms,
        store_host=batch.store_host,
        topic=batch.topic,
        body_length=len(one.body),
        body=one.body,
        properties=properties,
        tags=properties.get("TAGS"),
        keys=split_keys(properties.get("KEYS", "")),
        uniq_key=properties.get("UNIQ_KEY"),
        tags_code=tags_hash(properties.get("TAGS", "")),
        msg_id=batch.msg_id,
    )
