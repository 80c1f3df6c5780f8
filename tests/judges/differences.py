"""Differences of two results of one job: exit statuses, data, bytes of files, and words for people."""

from __future__ import annotations

import difflib
import json
import re
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

KINDS = ("status", "data", "bytes", "words", "names")
"""Of a difference: exit statuses; JSON, ndjson and csv; other files; texts for people; public names."""

_SECONDS = re.compile(
    r"^( *seconds ).*|<dt>seconds</dt>.*|\btime=\"[\d.]+\"|\b\d+(\.\d+)? (ms|s|min|h)\b|\b[\d.]+ [KMG]iB/s\b",
    re.M,
)
_CLOCK = r"[T ]\d\d:?\d\d(:?\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?"
_DATA_SUFFIXES = {".json", ".ndjson", ".csv"}
_WORD_SUFFIXES = {".html", ".xml", ".txt", ".md"}


def differences(
    old: Path, new: Path, ignored: Collection[str], lines: int
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield kind, file and first differing lines of what two folders of one job do not share.

    Args:
        old: The folder of the old side.
        new: The folder of the new side.
        ignored: Fields of JSON objects that do not count.
        lines: How many differing lines are shown of a file.
    """
    names = {str(path.relative_to(side)) for side in (old, new) for path in side.rglob("*") if path.is_file()}
    for name in sorted(one for one in names if not one.endswith("SHA256SUMS")):  # of files that are compared
        left, right = old / name, new / name
        kind = _kind(name, left if left.is_file() else right)
        if not left.is_file() or not right.is_file():
            yield "bytes", name, [f"only in {'new' if right.is_file() else 'old'}"]
            continue
        mine, others = left.read_bytes(), right.read_bytes()
        if mine == others:
            continue
        if kind == "bytes":
            place = next((at for at, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), None)
            where = "one ends early" if place is None else f"first at byte {place}"
            yield kind, name, [f"{len(mine)} and {len(others)} bytes, {where}"]
            continue
        texts = [_normal(side, data, kind, ignored) for side, data in ((old, mine), (new, others))]
        if texts[0] != texts[1]:
            found = difflib.unified_diff(texts[0], texts[1], "old", "new", lineterm="", n=0)
            yield kind, name, list(islice(found, 2, 2 + lines))


def _kind(name: str, path: Path) -> str:
    if name.startswith("status."):
        return "status"
    if name.startswith("err.") or path.suffix in _WORD_SUFFIXES:
        return "words"
    if name.startswith("out."):
        with path.open("rb") as file:
            head = file.readline()
        return "data" if head[:1] in {b"{", b"["} or re.match(rb"[\w]+(,\w+){3}", head) else "words"
    return "data" if path.suffix in _DATA_SUFFIXES else "bytes"


def _normal(folder: Path, data: bytes, kind: str, ignored: Collection[str]) -> list[str]:
    """Return lines without what differs from run to run: paths of the side, times that it took, moments."""
    text = data.decode(errors="backslashreplace").replace(str(folder.parent), "SIDE")
    text = re.sub(f"{datetime.now(UTC):%Y-%m-%d}{_CLOCK}", "NOW", text)  # a store has no moment of today
    if kind == "data":
        try:
            return json.dumps(_kept(json.loads(text), ignored), indent=1).splitlines()
        except ValueError:
            pass
        try:
            return [json.dumps(_kept(json.loads(line), ignored)) for line in text.splitlines()]
        except ValueError:
            return text.splitlines()
    return _SECONDS.sub("TIME", text).splitlines()


def _kept(value: object, ignored: Collection[str]) -> object:
    """Return JSON without the fields that do not count."""
    if isinstance(value, dict):
        return {
            name: _kept(part, ignored)
            for name, part in value.items()
            if name not in {"seconds", "run"} and name not in ignored
        }
    if isinstance(value, list):
        return [_kept(part, ignored) for part in value]
    return value
