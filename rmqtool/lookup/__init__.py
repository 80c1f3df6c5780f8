"""LOOK-UPS. Messages by way of their queues, each read and compared before ``query`` or ``dump`` shows it.

``request`` is the question, ``context`` the question to a store with those who listen, ``explain`` collects
what was met on the way. ``queue`` finds messages by queue offset, ``times`` by store time.

Nothing here is trusted: queues only name candidates, and where they are damaged, that is said.
"""

from __future__ import annotations
