"""``carve``: records out of raw bytes without names, as the logs they were; see ``rmqtool.carve``."""

from __future__ import annotations

from rmqtool.commands.carve.report import CarvedImage, CarvedLog, CarveReport
from rmqtool.commands.carve.run import CarveRequest, carve

__all__ = ["CarveReport", "CarveRequest", "CarvedImage", "CarvedLog", "carve"]
