"""``export``: the messages of a log as files of columns.

``model`` is what is wanted and what was done; ``plan`` cuts logs into tasks, ``task`` is the work on one,
``tables`` its files; ``run`` puts together what the tasks found. Each task walks its own pieces of the log,
and the chain of records decides which of them count: see ``rmqtool.scan.splits``.
"""

from __future__ import annotations
