"""The table of all finding codes in the manual."""

from __future__ import annotations

from rmqtool.findings import CATALOG

_HEAD = ("Code", "Severity", "Meaning", "Remedy")


def catalogue_table() -> str:
    """Return the catalogue as a table in Markdown, in the order of the catalogue."""
    lines = [_HEAD, ("---",) * len(_HEAD)]
    lines += [
        (f"`{entry.code}`", entry.severity.value, entry.title, entry.remedy) for entry in CATALOG.values()
    ]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    """Return text that ends no cell and starts no markup in Markdown."""
    for character in "|<*_":
        if not text.startswith("`"):
            text = text.replace(character, f"\\{character}")
    return text
