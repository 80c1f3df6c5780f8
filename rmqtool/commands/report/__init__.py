"""``report``: one page about a store, for those who decide and those who come later.

``gather`` runs the checks of ``verify``, which take a picture of the log on the same walk, predicts the next
start, and collects the progress of groups and the coverage of queues and index. ``model`` is the result,
``provenance`` its sources. How it looks is `rmqtool.report.page`.
"""

from __future__ import annotations

from rmqtool.commands.report.gather import ReportRequest, gather
from rmqtool.commands.report.model import StoreReport

__all__ = ["ReportRequest", "StoreReport", "gather"]
