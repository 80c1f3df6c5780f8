"""Offline, read-only forensic inspector for the files of an Apache RocketMQ broker.

Packages, lowest first; imports go down only (``tests/house`` enforces it):

``errors`` usage and environment errors, each with its exit status; ``topics`` names of the broker's own;
``releases`` rules of each release; ``caches`` files kept between runs; ``progress`` remarks of a command at
work; ``projection`` results as JSON; ``times`` as users give them;
``options`` declarations of options;
``formats`` layouts as construct schemas; ``javacompat`` Java's strings, numbers and checksums;
``findings`` everything that can be wrong; ``kernels`` machine code, the only package that knows numba;
``io`` storage; ``store`` files and settings; ``engine`` local threads and Spark;
``scan`` bytes of log to messages and gaps; ``derived`` readers of queues, index and checkpoint;
``doctor`` the broker's files in ``config/``; ``dispatch`` messages to units and index entries;
``reput`` the pipeline of ``rebuild``; ``account`` lost messages; ``recovery`` a broker's start;
``check`` checks of ``verify``; ``salvage`` a new log from a damaged one; ``rows`` typed rows;
``carve`` logs out of raw bytes; ``columns`` messages as Arrow; ``lookup`` messages by way of their queues;
``commands`` one module or package per command, none knows another; ``api`` the library;
``report`` output; ``spark`` stores as tables of a Spark session; ``cli`` the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BatchUnit",
    "CarveReport",
    "CarvedImage",
    "CarvedLog",
    "Chain",
    "Consumption",
    "Damage",
    "Difference",
    "Differences",
    "EngineError",
    "EngineOptions",
    "EnvironmentFailureError",
    "ExportReport",
    "Finding",
    "FindingCode",
    "FleetReport",
    "FleetSummary",
    "Index",
    "IndexHeader",
    "Item",
    "KeyQuestion",
    "LostMessage",
    "LostTotals",
    "Message",
    "Messages",
    "Prediction",
    "Queue",
    "RebuildReport",
    "RefusedError",
    "RmqtoolError",
    "Rows",
    "SalvagePlan",
    "SalvageReport",
    "Setting",
    "Slot",
    "Store",
    "StoreOutcome",
    "StoreSummary",
    "TopicTotals",
    "TopicsReport",
    "UnansweredError",
    "Unit",
    "UsageError",
    "VerifyInterruptedError",
    "VerifyReport",
    "__version__",
    "ask_stores",
    "carve_images",
    "decode_id",
    "export",
    "json_value",
    "open",
    "open_engine",
]

_HOMES = {
    "api.carving": ("carve_images",),
    "api.engines": ("open_engine",),
    "api.exporting": ("export",),
    "api.fleet": ("ask_stores",),
    "api.messages": ("Messages",),
    "api.opening": (
        "decode_id",
        "open",
    ),
    "api.parts": (
        "Index",
        "Queue",
    ),
    "api.results": (
        "Answer",
        "Differences",
        "Rows",
    ),
    "api.store": ("Store",),
    "check.model": (
        "VerifyInterruptedError",
        "VerifyReport",
    ),
    "commands.carve": (
        "CarveReport",
        "CarvedImage",
        "CarvedLog",
    ),
    "commands.diff.model": ("Difference",),
    "commands.export.model": ("ExportReport",),
    "commands.fleet": (
        "FleetReport",
        "FleetSummary",
        "StoreOutcome",
    ),
    "commands.info": ("StoreSummary",),
    "commands.query": ("KeyQuestion",),
    "commands.query.consumption": ("Consumption",),
    "commands.rebuild.report": ("RebuildReport",),
    "commands.salvage": ("SalvageReport",),
    "commands.topics": (
        "TopicTotals",
        "TopicsReport",
    ),
    "rows": (
        "BatchUnit",
        "Chain",
        "Damage",
        "IndexHeader",
        "Item",
        "Message",
        "Slot",
        "Unit",
    ),
    "engine": (
        "EngineError",
        "EngineOptions",
    ),
    "errors": (
        "EnvironmentFailureError",
        "RefusedError",
        "RmqtoolError",
        "UnansweredError",
        "UsageError",
    ),
    "findings": (
        "Finding",
        "FindingCode",
    ),
    "projection": ("json_value",),
    "recovery": (
        "LostMessage",
        "LostTotals",
        "Prediction",
    ),
    "salvage.model": ("SalvagePlan",),
    "store": ("Setting",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = frozenset({"errors", "progress", "spark"})

if TYPE_CHECKING:
    from rmqtool.api.carving import carve_images
    from rmqtool.api.engines import open_engine
    from rmqtool.api.exporting import export
    from rmqtool.api.fleet import ask_stores
    from rmqtool.api.messages import Messages
    from rmqtool.api.opening import decode_id, open
    from rmqtool.api.parts import Index, Queue
    from rmqtool.api.results import Answer, Differences, Rows
    from rmqtool.api.store import Store
    from rmqtool.check.model import VerifyInterruptedError, VerifyReport
    from rmqtool.commands.carve import CarvedImage, CarvedLog, CarveReport
    from rmqtool.commands.diff.model import Difference
    from rmqtool.commands.export.model import ExportReport
    from rmqtool.commands.fleet import FleetReport, FleetSummary, StoreOutcome
    from rmqtool.commands.info import StoreSummary
    from rmqtool.commands.query import KeyQuestion
    from rmqtool.commands.query.consumption import Consumption
    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.commands.salvage import SalvageReport
    from rmqtool.commands.topics import TopicsReport, TopicTotals
    from rmqtool.engine import EngineError, EngineOptions
    from rmqtool.errors import (
        EnvironmentFailureError,
        RefusedError,
        RmqtoolError,
        UnansweredError,
        UsageError,
    )
    from rmqtool.findings import Finding, FindingCode
    from rmqtool.projection import json_value
    from rmqtool.recovery import LostMessage, LostTotals, Prediction
    from rmqtool.rows import BatchUnit, Chain, Damage, IndexHeader, Item, Message, Slot, Unit
    from rmqtool.salvage.model import SalvagePlan
    from rmqtool.store import Setting
else:

    def __getattr__(name: str) -> object:
        """Load what the library offers when it is first asked for: importing the package costs nothing."""
        if name in _MODULES:
            return import_module(f"rmqtool.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'rmqtool' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"rmqtool.{_HOME_OF[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
