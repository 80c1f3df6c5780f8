"""FLEET. One question to many stores: a bad one stops nothing, and all share one engine.

What is asked is a function of a store, an engine and a progress (`Ask`): any command's. The outcomes are one
report, in the order in which the stores were named; its exit status is the worst.
"""

from __future__ import annotations

from rmqtool.commands.fleet.asked import Ask
from rmqtool.commands.fleet.member import Member, gathered
from rmqtool.commands.fleet.model import FleetReport, FleetSummary, StoreOutcome
from rmqtool.commands.fleet.run import ask_members

__all__ = ["Ask", "FleetReport", "FleetSummary", "Member", "StoreOutcome", "ask_members", "gathered"]
