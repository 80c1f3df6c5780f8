"""What is wrong with a store: the checks of `verify`, each of a part of it.

``run`` looks at the layout, ``stages`` goes through the other levels: ``log`` (every record, and what they
say of each other), ``queues`` and ``index`` (what is there against what the log demands), the checkpoint and
the consumers' offsets. ``tasks`` are what the checks of derived files get, ``derived`` makes them,
``expected`` hands out the units and index entries that the log demands; ``model`` is what is asked and said.
"""

from __future__ import annotations
