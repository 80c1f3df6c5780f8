"""``query``: the messages that answer a question, each read and compared before it is shown.

``request`` is the question, ``inquiry`` the question to a store with those who listen, ``run`` the way from
it to messages. Which structure answers: the log at one place (``by_id``), ``index`` (``by_key``: what a
client keeps of the hits; ``broker_hits``: exactly as a broker finds them), ``queue`` (queue offsets),
``times`` (store times, through the queues), ``by_tag`` (tag items of the index, else tags codes in the
queues), ``scan`` (the log itself, when told to; ``log_answers``). What these do not hold of the log:
``index_reach``, ``queue_shape``, ``lookahead``. ``explain`` collects what was met on the way, ``absence``
looks for reasons why the index has nothing, ``hints`` for what was meant.

Nothing here is trusted: index and queues only name candidates, and where they are damaged, that is said.
"""

from __future__ import annotations

from rmqtool.commands.query.explain import Explanation, Reason, Step
from rmqtool.commands.query.request import KeyQuestion, QueryRequest
from rmqtool.commands.query.run import Query

__all__ = ["Explanation", "KeyQuestion", "Query", "QueryRequest", "Reason", "Step"]
