"""CONSUMPTION of a message by a group: the evidence of offsets, copies for retry, dead letters and pop.

``judge`` decides. ``groups`` reads what the group committed and received by pop, and the known groups;
``copies`` finds the copies that a broker wrote for the group. Most questions do not need ``judge``, so it is
imported on use. No store shows what a consumer did: a broker only learns how far it may go on.
"""

from __future__ import annotations

from rmqtool.commands.query.consumption.judge import Consumption, ConsumptionState, Evidence

__all__ = ["Consumption", "ConsumptionState", "Evidence"]
