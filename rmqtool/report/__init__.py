"""Output of rows, reports and progress as text, json, ndjson or csv; nothing here judges a store.

Bytes of a store are hostile: no markup is read in them, and everything that a terminal could take for a
command is escaped (``terminal``). Rich is imported where a table or a progress bar is drawn, never for a
stream of rows.
"""

from __future__ import annotations
