"""What a finding code means: entries of the catalogue by what the user typed."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

from rmqtool.errors import UsageError
from rmqtool.findings import CATALOG, FindingCode

ALL = "all"


def explained(text: str) -> tuple[FindingCode, ...]:
    """Return the entries that a user asks for.

    Args:
        text: A code in any case, a glob such as ``CL-*``, or ``all``.

    Raises:
        UsageError: There is no such code; the closest ones are named.
    """
    wanted = text.strip().upper()
    pattern = "*" if wanted == ALL.upper() else wanted
    found = tuple(entry for code, entry in CATALOG.items() if fnmatchcase(code, pattern))
    if found:
        return found
    close = get_close_matches(wanted, CATALOG, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "--explain all lists them"
    raise UsageError(f"no finding code is called {text!r}; {hint}")
