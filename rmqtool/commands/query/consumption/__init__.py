"""Whether a group has consumed a message: what offsets, copies for retry, dead letters and pop tell.

``judge`` decides, ``model`` is what it says. ``groups`` reads the committed offsets and which groups there
are, ``lineage`` knows a copy by its properties, ``copies`` finds what a broker wrote again for the group,
``pops`` what the group was given by pop.

``judge`` is imported where it is needed: most questions do not ask for it. Nothing here knows what a consumer
did: a broker is only told how far it may go on.
"""

from __future__ import annotations

from rmqtool.commands.query.consumption.model import Consumption, ConsumptionState, Evidence

__all__ = ["Consumption", "ConsumptionState", "Evidence"]
