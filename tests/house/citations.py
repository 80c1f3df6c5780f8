"""What the code of rmqtool cites of the broker's: ``Class#member`` in docstrings, comments and findings."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "rmqtool"

# ``Class#member``, and ``#member`` of the class that was named before it.
CITED = re.compile(r"(?:\b([A-Z]\w+)|(?<=``))#(\w+|<init>)")


def cited() -> dict[tuple[str, str], list[str]]:
    """Return class and member of each citation, and the modules where it stands."""
    found = defaultdict(list)
    for path in [*sorted(SOURCES.rglob("*.py")), SOURCES / "findings/catalog.txt"]:
        for source in dict.fromkeys(citations(path.read_text("utf-8"))):
            found[source].append(path.relative_to(SOURCES).as_posix())
    return dict(found)


def citations(text: str) -> list[tuple[str, str]]:
    """Return class and member of each citation in a text, in its order; no class if none was named."""
    found: list[tuple[str, str]] = []
    for match in CITED.finditer(text):
        found.append((match[1] or (found[-1][0] if found else ""), match[2]))
    return found
