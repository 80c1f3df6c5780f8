"""``report``: one page about a store, for those who decide and those who come later.

``gather`` runs the checks of ``verify``, which take a picture of the log on the same walk, predicts the
next start, and collects the progress of groups, the coverage of queues and index, and its own sources.
``model`` is request and result. How it looks is `rmqtool.report.page`.
"""

from __future__ import annotations
