"""``query``: the messages that answer a question, each read and compared before it is shown.

``run`` is the way from a question to messages. Which structure answers: the log at one place (``by_id``),
``index`` (``by_key``: what a client keeps of the hits; ``broker_hits``: exactly as a broker finds them), the
queues (`rmqtool.lookup`), ``by_tag`` (tag items of the index, else tags codes in the queues), ``scan`` (the
log itself, when told to; ``log_answers``). ``index_coverage`` tells what the index does not hold of the log,
``miss_reasons`` looks for reasons why it has nothing, ``hints`` for what was meant; ``consumption`` tells
whether a group has consumed what was found.

Nothing here is trusted: index and queues only name candidates, and where they are damaged, that is said.
"""

from __future__ import annotations

from rmqtool.commands.query.run import Query
from rmqtool.lookup.explain import Explanation, Reason, Step
from rmqtool.lookup.request import KeyQuestion, QueryRequest

__all__ = [
    "Explanation",
    "KeyQuestion",
    "Query",
    "QueryRequest",
    "Reason",
    "Step",
]
