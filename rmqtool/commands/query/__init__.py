"""``query``: the messages that answer a question, each read and compared before it is shown.

``run`` leads from a question to messages through the structure that answers: the log at one place, the
index (``index``), the queues (`rmqtool.lookup`), or on request the log itself (``scan``). ``miss_reasons``
finds why the index has nothing, corrections of the question, and what the rest of the store says.
``consumption`` judges whether a group has consumed the messages, by its offsets and by ``group_records``.

Index and queues only name candidates; where they are damaged, the answer says so.
"""

from __future__ import annotations

from rmqtool.commands.query.run import Query
from rmqtool.lookup.context import Explanation, KeyQuestion, QueryRequest, Reason, Step

__all__ = [
    "Explanation",
    "KeyQuestion",
    "Query",
    "QueryRequest",
    "Reason",
    "Step",
]
