"""``query``: the messages that answer a question, each read and compared before it is shown.

``run`` is the way from a question to messages. Which structure answers: the log at one place (``by_id``),
``index`` (``by_key``: the hits that a client keeps, or those of a broker), the
queues (`rmqtool.lookup`), ``by_tag`` (tag items of the index, else tags codes in the queues), ``scan`` (the
log itself, when told to; ``log_answers``). ``miss_reasons`` finds reasons why the
index has nothing, and what was meant; ``consumption`` tells
whether a group has consumed what was found.

Nothing here is trusted: index and queues only name candidates, and where they are damaged, that is said.
"""

from __future__ import annotations

from rmqtool.commands.query.run import Query
from rmqtool.lookup.context import KeyQuestion, QueryRequest
from rmqtool.lookup.explain import Explanation, Reason, Step

__all__ = [
    "Explanation",
    "KeyQuestion",
    "Query",
    "QueryRequest",
    "Reason",
    "Step",
]
