"""FLEET. One question to many stores: a bad one stops nothing, and all share one engine.

A question is a function of a store, an engine and a progress (`Ask`): any command's. The outcomes are one
report, in the order in which the stores were named; its exit status is the worst.
"""

from __future__ import annotations

from rmqtool.commands.fleet.model import FleetMember, FleetReport, FleetSummary, StoreOutcome, gathered
from rmqtool.commands.fleet.run import Ask, ask_members

__all__ = ["Ask", "FleetMember", "FleetReport", "FleetSummary", "StoreOutcome", "ask_members", "gathered"]
