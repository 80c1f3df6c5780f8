"""``rebuild``: ``consumequeue/`` and ``index/`` out of the log, as a running master's reput builds them.

``run`` goes from a request to files, ``compare`` compares them with those that are there, ``report`` is what
came of it.
"""

from __future__ import annotations

from rmqtool.commands.rebuild.report import RebuildReport
from rmqtool.commands.rebuild.run import RebuildRequest, rebuild

__all__ = ["RebuildReport", "RebuildRequest", "rebuild"]
