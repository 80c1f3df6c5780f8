"""Messages by their place in the log, or by an id, which is tried as an offset id first."""

from __future__ import annotations

from rmqtool.javacompat import decode_client_id, decode_offset_id
from rmqtool.lookup.context import KeyQuestion, QueryContext, Reason
from rmqtool.lookup.topic_names import topics_of
from rmqtool.rows.messages import host_text, offset_id_of
from rmqtool.scan.record_walk import first_record
from rmqtool.scan.records import Record, record_at


def by_offset(context: QueryContext, offset: int) -> Record | None:
    """Return the record at a physical offset; explain why if there is none."""
    record = record_at(context.store.commitlog, offset)
    if record is None and not prove_lost(context, offset):
        context.explain_nothing_at(offset)
    return record


def prove_lost(context: QueryContext, offset: int) -> bool:
    """Keep the unit that leads to a record around a physical offset; return whether one is lost."""
    from rmqtool.lookup.queue import unit_at

    log, left_out = context.store.commitlog, context.left_out
    for queue in context.store.queues():
        start, facts = unit_at(queue, offset, log) or (-1, "")
        if start >= log.start and record_at(log, start) is None:
            left_out.add(left_out.absence(start)[0], start)
            left_out.prove(start, facts)
    return bool(left_out.proofs)


def by_offset_id(context: QueryContext, text: str) -> Record | None:
    """Return the message that an offset id names; explain why if this store has none."""
    offset_id = decode_offset_id(text)
    if offset_id is None:
        message = f"{text} cannot be an offset id: those are 32 or 56 hex digits"
        context.explanation.add(Reason.ID, message)
        return None
    offset = offset_id.physical_offset
    record = record_at(context.store.commitlog, offset) if offset >= 0 else None
    if record is not None and offset_id_of(record) == text.upper():
        return record
    is_lost = record is None and offset_id.doubt is None and prove_lost(context, offset)
    message = (
        f"as an offset id, {text} is log offset {offset} of the broker {offset_id.host}:{offset_id.port}:"
        f" {_what_lies_at(context, offset, record)}{'' if is_lost else '; so it is taken for a unique id'}"
    )
    if offset_id.doubt is None:
        context.explanation.advise(Reason.ID, message, physicalOffset=offset)
    else:
        context.explanation.add(Reason.ID, message, physicalOffset=offset)
    return None


def _what_lies_at(context: QueryContext, offset: int, record: Record | None) -> str:
    log = context.store.commitlog
    if record is not None:
        return f"the one there has the id {offset_id_of(record)}"
    if offset < log.start:
        return f"the log begins at {log.start}"
    first = first_record(log.segments)
    host = "" if first is None else f"; the log begins with a message of {host_text(first.head.store_host)}"
    return f"no record begins there{host}"


def id_questions(context: QueryContext, text: str) -> list[KeyQuestion]:
    """Return the questions for a unique id: of one topic or of all, as given and as clients write it."""
    topic = context.request.topic
    topics = [topic] if topic else topics_of(context.store, context.progress)
    return [KeyQuestion(topic, one, unique=True) for topic in topics for one in spellings(text)]


def spellings(text: str) -> list[str]:
    """Return an id, and its upper-case form if it is in lower case.

    Java: ``MessageClientIDSetter#createUniqID`` (4.9.8, 5.3.3) and ``MessageIdCodec#nextMessageId`` of the
    gRPC client write upper case.
    """
    is_id = decode_offset_id(text) is not None or decode_client_id(text) is not None
    return [text, text.upper()] if is_id and text != text.upper() else [text]
