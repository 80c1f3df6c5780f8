"""The catalogue: all codes by id."""

from __future__ import annotations

from rmqtool.errors import UsageError
from rmqtool.findings import commitlog, consumequeue, index, places, records, start
from rmqtool.findings.model import FindingCode

CATALOG: dict[str, FindingCode] = {
    entry.code: entry
    for module in (commitlog, records, records, consumequeue, index, places, start, start)
    for entry in vars(module).values()
    if isinstance(entry, FindingCode)
}


def code_of(text: str) -> FindingCode:
    """Return the catalogue entry of an id, in any case; `UsageError` if there is none."""
    entry = CATALOG.get(text.upper())
    if entry is None:
        raise UsageError(f"no finding code is called {text!r}; `verify --explain all` lists them")
    return entry
