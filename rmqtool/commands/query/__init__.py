"""``query``: the messages that answer a question, each read and compared before it is shown.

``request`` is the question, ``run`` the way from it to messages. Which structure answers: ``index`` (keys and
unique keys; ``broker_hits`` exactly as a broker would, collisions included), ``queue`` (queue offsets),
``times`` (store times, through the queues), ``scan`` (the log itself, when told to). ``explain`` collects
what was met on the way, ``absence`` looks for reasons why the index has nothing.

Nothing here is trusted: index and queues only name candidates, and where they are damaged, that is said.
"""

from __future__ import annotations

from rmqtool.commands.query.explain import Explanation, Reason, Step
from rmqtool.commands.query.request import KeyQuestion, QueryRequest
from rmqtool.commands.query.run import Query

__all__ = ["Explanation", "KeyQuestion", "Query", "QueryRequest", "Reason", "Step"]
