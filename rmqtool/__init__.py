"""Offline, read-only forensic inspector for the files of an Apache RocketMQ broker.

Packages, lowest first; imports go down only (``tests/house`` enforces it):

``errors`` usage and environment errors, each with its exit status; ``topics`` names of the broker's own;
``releases`` rules of each release; ``caches`` files kept between runs; ``version`` of rmqtool;
``imports`` libraries with less than they load; ``interrupts`` signals, kept back for a while;
``progress`` remarks of a command at work; ``projection`` results as JSON; ``times`` as users give them;
``options`` declarations of options;
``javacompat`` Java's strings, numbers and checksums; ``formats`` layouts as construct schemas;
``findings`` everything that can be wrong; ``kernels`` machine code, the only package that knows numba;
``io`` storage; ``store`` files and settings; ``engine`` local threads and Spark;
``scan`` bytes of log to messages and gaps; ``derived`` readers of queues, index and checkpoint;
``doctor`` the broker's files in ``config/``; ``dispatch`` messages to units and index entries;
``reput`` the pipeline of ``rebuild``; ``genuine`` which records of a damaged log are its own;
``account`` lost messages; ``recovery`` a broker's start;
``outcomes`` their form, order and words; ``retention`` a running broker's deletions;
``check`` checks of ``verify``; ``salvage`` a new log from a damaged one;
``actions`` the outcome of each, and advice; ``rows`` typed rows;
``carve`` logs out of raw bytes; ``columns`` messages as Arrow;
``lookup`` messages by way of their queues, and what a query rejects;
``commands`` one module or package per command, none knows another; ``api`` the library;
``report`` output; ``spark`` stores as tables of a Spark session; ``cli`` the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "account.lost": ("LostMessage", "LostTotals"),
    "api.arguments": ("open_engine",),
    "api.functions": ("ask_stores", "carve_images", "decode_id", "export", "open"),
    "api.parts": ("Index", "Messages", "Queue"),
    "api.results": ("Answer", "Differences", "Rows"),
    "api.store": ("Store",),
    "check": ("VerifyInterruptedError", "VerifyReport"),
    "commands.carve": ("CarveReport", "CarvedImage", "CarvedLog"),
    "commands.convert": ("ConvertReport",),
    "commands.diff": ("Difference",),
    "commands.export": ("ExportReport",),
    "commands.fleet": ("FleetReport", "FleetSummary", "StoreOutcome"),
    "commands.info": ("StoreSummary",),
    "commands.query": ("KeyQuestion",),
    "commands.query.consumption": ("Consumption",),
    "commands.rebuild.report": ("RebuildReport",),
    "commands.salvage": ("SalvageReport",),
    "commands.topics": ("TopicTotals", "TopicsReport"),
    "engine": ("EngineError", "EngineOptions"),
    "errors": ("EnvironmentFailureError", "RefusedError", "RmqtoolError", "UnansweredError", "UsageError"),
    "findings": ("Finding", "FindingCode"),
    "projection": ("json_value",),
    "recovery": ("Prediction",),
    "rows": ("BatchUnit", "Chain", "Damage", "IndexHeader", "Item", "Message", "Slot", "Unit"),
    "salvage": ("SalvagePlan",),
    "store": ("Setting",),
    "version": ("__version__",),
}
"""Public names, by the modules that define them, which load at the first use of a name."""

_HOME_OF: dict[str, str] = {}
for _home, _names in _HOMES.items():
    _HOME_OF |= dict.fromkeys(_names, _home)
_MODULES = frozenset({"errors", "progress", "spark"})

__all__ = [*_HOME_OF]  # noqa: PLE0604

if TYPE_CHECKING:
    from rmqtool.account.lost import LostMessage as LostMessage
    from rmqtool.account.lost import LostTotals as LostTotals
    from rmqtool.api.arguments import open_engine as open_engine
    from rmqtool.api.functions import ask_stores as ask_stores
    from rmqtool.api.functions import carve_images as carve_images
    from rmqtool.api.functions import decode_id as decode_id
    from rmqtool.api.functions import export as export
    from rmqtool.api.functions import open as open
    from rmqtool.api.parts import Index as Index
    from rmqtool.api.parts import Messages as Messages
    from rmqtool.api.parts import Queue as Queue
    from rmqtool.api.results import Answer as Answer
    from rmqtool.api.results import Differences as Differences
    from rmqtool.api.results import Rows as Rows
    from rmqtool.api.store import Store as Store
    from rmqtool.check import VerifyInterruptedError as VerifyInterruptedError
    from rmqtool.check import VerifyReport as VerifyReport
    from rmqtool.commands.carve import CarvedImage as CarvedImage
    from rmqtool.commands.carve import CarvedLog as CarvedLog
    from rmqtool.commands.carve import CarveReport as CarveReport
    from rmqtool.commands.convert import ConvertReport as ConvertReport
    from rmqtool.commands.diff import Difference as Difference
    from rmqtool.commands.export import ExportReport as ExportReport
    from rmqtool.commands.fleet import FleetReport as FleetReport
    from rmqtool.commands.fleet import FleetSummary as FleetSummary
    from rmqtool.commands.fleet import StoreOutcome as StoreOutcome
    from rmqtool.commands.info import StoreSummary as StoreSummary
    from rmqtool.commands.query import KeyQuestion as KeyQuestion
    from rmqtool.commands.query.consumption import Consumption as Consumption
    from rmqtool.commands.rebuild.report import RebuildReport as RebuildReport
    from rmqtool.commands.salvage import SalvageReport as SalvageReport
    from rmqtool.commands.topics import TopicsReport as TopicsReport
    from rmqtool.commands.topics import TopicTotals as TopicTotals
    from rmqtool.engine import EngineError as EngineError
    from rmqtool.engine import EngineOptions as EngineOptions
    from rmqtool.errors import EnvironmentFailureError as EnvironmentFailureError
    from rmqtool.errors import RefusedError as RefusedError
    from rmqtool.errors import RmqtoolError as RmqtoolError
    from rmqtool.errors import UnansweredError as UnansweredError
    from rmqtool.errors import UsageError as UsageError
    from rmqtool.findings import Finding as Finding
    from rmqtool.findings import FindingCode as FindingCode
    from rmqtool.projection import json_value as json_value
    from rmqtool.recovery import Prediction as Prediction
    from rmqtool.rows import BatchUnit as BatchUnit
    from rmqtool.rows import Chain as Chain
    from rmqtool.rows import Damage as Damage
    from rmqtool.rows import IndexHeader as IndexHeader
    from rmqtool.rows import Item as Item
    from rmqtool.rows import Message as Message
    from rmqtool.rows import Slot as Slot
    from rmqtool.rows import Unit as Unit
    from rmqtool.salvage import SalvagePlan as SalvagePlan
    from rmqtool.store import Setting as Setting
    from rmqtool.version import __version__ as __version__
else:  # where mypy would make each name private that `__all__` does not list in writing
    __all__ = list(_HOME_OF)

    def __getattr__(name: str) -> object:
        """Load a public name at its first use: importing the package costs nothing."""
        if name in _MODULES:
            return import_module(f"rmqtool.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'rmqtool' has no attribute {name!r}")
        public = globals()[name] = getattr(import_module(f"rmqtool.{_HOME_OF[name]}"), name)
        return public


def __dir__() -> list[str]:
    return sorted({*_HOME_OF, *_MODULES})
