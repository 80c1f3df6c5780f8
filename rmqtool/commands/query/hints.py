"""What a question that found nothing may have got wrong: cheap to look up, and said without being asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.query.by_id import spellings
from rmqtool.javacompat import split_keys
from rmqtool.lookup.explain import Reason
from rmqtool.lookup.queue import find_queue, queues_problem
from rmqtool.lookup.topic_names import some, topics_of, unknown_topic
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from rmqtool.lookup.context import QueryContext
    from rmqtool.lookup.request import KeyQuestion


def advise(context: QueryContext) -> None:
    """Tell what else the user may have meant."""
    topic, queue_id = context.request.topic, context.request.queue_id
    if topic is not None and not _advise_topic(context, topic) and queue_id is not None:
        _advise_queue(context, topic, queue_id)
    outside = context.left_out.outside
    if outside is not None:
        context.explanation.advise(Reason.RECORD_OUT_OF_TIME, outside)
    question = context.request.key_question_of(topic or "")
    if question is not None:
        _advise_key(context, question)


def _advise_topic(context: QueryContext, topic: str) -> bool:
    """Tell of a topic that is not there, and names near it; return whether there was cause to."""
    known = topics_of(context.store, context.progress)
    if not known or topic in known:
        return False
    context.explanation.advise(Reason.TOPIC_UNKNOWN, unknown_topic(topic, known), topic=topic)
    return True


def _advise_queue(context: QueryContext, topic: str, queue_id: int) -> None:
    store = context.store
    if queues_problem(store) is not None or find_queue(store, topic, queue_id) is not None:
        return
    ids = sorted(one.queue_id or 0 for kind in UNIT_QUEUE_KINDS for one in store.queues(kind, topic))
    has = f"the topic has the queues {some(map(str, ids))}" if ids else "the topic has none"
    message = f"there is no queue {topic}/{queue_id}; {has}"
    context.explanation.advise(Reason.QUEUE_MISSING, message, topic=topic, queueId=queue_id)


def _advise_key(context: QueryContext, question: KeyQuestion) -> None:
    key, prefix = question.key, f"{question.topic}#"
    if key.startswith(prefix):
        message = f"the index joins topic and key by itself: ask for {key.removeprefix(prefix)!r} alone"
        context.explanation.advise(Reason.KEY_FORM, message)
    if question.unique and len(spellings(key)) > 1:
        message = f"clients write unique keys in upper case: ask for {key.upper()}"
        context.explanation.advise(Reason.KEY_FORM, message)
    if not question.unique and not question.is_tag and " " in key:
        pieces = ", ".join(split_keys(key)) or "none"
        message = f"KEYS is cut at every space, so {key!r} is never indexed as a whole; ask for {pieces}"
        context.explanation.advise(Reason.KEYS_SPLIT, message)
