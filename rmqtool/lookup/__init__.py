"""LOOK-UPS. Messages by way of their queues, each read and compared before ``query`` or ``dump`` shows it.

``context`` has the question, its limit, the hits that do not count and the steps on the way. ``queue`` finds
messages by queue offset, ``searches`` by store time or tag. Queues and index only name candidates; where they
are damaged, the answer says so.
"""

from __future__ import annotations
