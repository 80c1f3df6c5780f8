"""``report``: one page about a store, for whoever decides and for whoever comes after.

``gather`` asks what there is to ask: the checks of ``verify``, which take a picture of the log on their one
way through it, the next start, how far groups have come, what queues and index cover. ``model`` is what
comes out, ``provenance`` on what it rests. How it looks is `rmqtool.report.page`.
"""

from __future__ import annotations

from rmqtool.commands.report.gather import ReportRequest, gather
from rmqtool.commands.report.model import StoreReport

__all__ = ["ReportRequest", "StoreReport", "gather"]
