"""``export``: the messages of a log as files of columns.

``model`` has request and report; ``run`` cuts logs into tasks, does the work on one, and joins the results.
Each task walks its own pieces of the log, and the chain of records decides which of them count:
see ``rmqtool.scan.log_pass``.
"""

from __future__ import annotations
