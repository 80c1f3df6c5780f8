"""The page of ``report``: one HTML file without script or external resources.

``view`` lays it out, ``charts`` and ``strip`` are the drawings as numbers, ``page.html.j2`` puts both into
HTML. Every text from the store passes `rmqtool.report.page.charts.shown` and Jinja's escapes. Lists that grow
with the store (topics, files, findings) have a bound, and the rest is counted.
"""

from __future__ import annotations

from rmqtool.report.page.view import render_page

__all__ = ["render_page"]
