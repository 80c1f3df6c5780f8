"""The page of ``report``: one file of HTML, without script, that asks nobody for anything.

``view`` says what stands where, ``charts`` and ``strip`` are the drawings as numbers, ``page.html.j2`` puts
both into HTML; every text from the store passes `rmqtool.report.page.words.shown` and Jinja's escapes. What
grows with the store (topics, files, findings) is listed up to a bound, and what is left out is said.
"""

from __future__ import annotations

from rmqtool.report.page.render import render_page

__all__ = ["render_page"]
