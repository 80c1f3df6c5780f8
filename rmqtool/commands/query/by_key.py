"""Messages by key through the index: what a client keeps of the hits, or what a broker gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.query.broker_hits import broker_hits
from rmqtool.commands.query.index import IndexSearch
from rmqtool.commands.query.miss_reasons import explain_absence
from rmqtool.findings.wording import counted
from rmqtool.lookup.explain import Reason
from rmqtool.scan.record_at import record_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.lookup.context import QueryContext
    from rmqtool.lookup.request import KeyQuestion
    from rmqtool.scan.records import Record

Match = tuple["KeyQuestion | None", "Record"]


def indexed(context: QueryContext, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
    """Yield the newest hits that answer each question, in the order of the log, as a broker does."""
    search = IndexSearch(context)
    found = search.answers(questions)
    count = sum(map(len, found))
    is_of_many = context.request.keys is not None
    missing = [question for question, offsets in zip(questions, found, strict=True) if not offsets]
    if missing and (not count or is_of_many):
        explain_absence(context, missing)
    _explain_limit(context, max(map(len, found), default=0))
    over = f" for {counted(len(questions), 'key')}" if is_of_many else ""
    left_out = str(context.left_out)
    others = f"; left out: {left_out}" if left_out else ""
    context.progress.note(f"answered by the index: {counted(count, 'hit')}{over}{others}")
    for question, offsets in zip(questions, found, strict=True):
        for offset in offsets:
            record = record_at(context.store.commitlog, offset)
            if record is not None:
                yield question, record


def _explain_limit(context: QueryContext, most: int) -> None:
    limit = context.store.settings.max_msgs_num_batch
    if most > limit:
        message = f"a broker returns at most {limit} hits (maxMsgsNumBatch); here are {most}"
        context.explanation.add(Reason.BROKER_LIMIT, message)


def with_collisions(context: QueryContext, questions: Sequence[KeyQuestion]) -> Iterator[Match]:
    """Yield every hit as a broker does, whatever its key and topic, question by question."""
    found = broker_hits(context, questions)
    count = sum(map(len, found))
    context.progress.note(f"answered by the index: {counted(count, 'hit')} as a broker finds them")
    for question, offsets in zip(questions, found, strict=True):
        for offset in offsets:
            record = record_at(context.store.commitlog, offset)
            if record is not None:
                yield question, record
            else:
                context.explain_nothing_at(offset)
