"""Codes of findings by name: ``CL_CRC`` is ``CL-CRC`` of the catalogue."""

from __future__ import annotations

from rmqtool.findings import CATALOG, FindingCode

globals().update({code.replace("-", "_"): entry for code, entry in CATALOG.items()})


def __getattr__(name: str) -> FindingCode:
    """Give every name its type; a name that comes here is none of the catalogue."""
    raise AttributeError(f"catalog.txt has no finding {name.replace('_', '-')}")
