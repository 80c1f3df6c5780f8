"""Catalogue of lines in logs of brokers and clients: numbers in them, meaning, harm.

``log_lines.txt`` has a block for each; `LOG_LINES` all of them by name, in the order in which they are tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from pkgutil import get_data
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = re.compile(r"\{(?P<same>=?)(?P<name>\w+|\*)\}|(?P<blanks>\s+)|(?P<text>[^{}\s]+)")
_WORDS = frozenset({"before", "file", "group", "magic", "queue", "topic"})
_NO_WORDS = re.compile(r"\{[^}]*\}|\[bug\]|0x\w*|[^a-z]+")
_SHORTEST_PART, _SHORTEST_RUN, _MOST = 12, 3, 0.6
_NUMBER, _WORD, _ANYTHING = r"-?\d{1,19}(?:\.\d{1,19})?(?!\d)", r"\S+", ".+?"


class Concern(StrEnum):
    """Harm that a line shows by itself."""

    HARMLESS = "harmless"
    LOOK = "look"  # the files, or the thread that wrote it, decide
    BAD = "bad"


class Match(NamedTuple):
    """A line that was recognised, and the numbers and words in it by name."""

    row: LogLine
    numbers: dict[str, int | float | str]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One kind of line.

    Attributes:
        name: Stable id; never reused, never renamed.
        concern: Harm that it shows by itself.
        title: A few words for a table.
        since: First release that writes it, of those from 4.0.0 on.
        until: Last release; None if the newest writes it.
        meaning: Cause and effect.
        codes: Finding codes that ``verify`` has of a store in which that did harm; none where one store does
            not show it.
        origin: Java ``Class#method``, and the log's file unless that is store.log.
        lines: Its forms, as regular expressions.
        words: Those of its forms, without numbers.
    """

    name: str
    concern: Concern
    title: str
    since: str
    until: str | None
    meaning: str
    codes: tuple[str, ...]
    origin: str
    lines: tuple[re.Pattern[str], ...]
    words: tuple[list[str], ...]

    def match(self, text: str) -> Match | None:
        """Return the numbers of a line of this kind; None for any other."""
        for line in self.lines:
            if (groups := line.search(text)) is not None:
                return Match(self, {name: _value(value) for name, value in groups.groupdict().items()})
        return None


def recognised(text: str) -> Match | None:
    """Return what a line of a log says; None if it says nothing of a store."""
    return next((match for row in LOG_LINES.values() if (match := row.match(text)) is not None), None)


def quoted(text: str) -> list[LogLine]:
    """Return the kinds of lines of which a text is a part: quoted, a line has often lost its numbers."""
    part = _words(text)
    if len(" ".join(part)) < _SHORTEST_PART:
        return []
    return [row for row in LOG_LINES.values() if any(_has_most(words, part) for words in row.words)]


def _has_most(words: list[str], part: list[str]) -> bool:
    """Whether most words of a part, or all of a short one, stand in a line one after the other."""
    run = SequenceMatcher(None, words, part, autojunk=False).find_longest_match().size
    return run == len(part) or run >= max(_SHORTEST_RUN, _MOST * len(part))


def _words(text: str) -> list[str]:
    """Return the words of a line, or of its form, as they are compared: without numbers and marks."""
    return _NO_WORDS.sub(" ", text.lower()).split()


def _value(text: str) -> int | float | str:
    if not re.fullmatch(_NUMBER, text):
        return text
    return float(text) if "." in text else int(text)


def _expression(line: str) -> str:
    """Return a line of the table as a regular expression."""
    parts = []
    for piece in _PIECE.finditer(line):
        name, text = piece["name"], piece["text"]
        if name == "*":
            parts.append(_ANYTHING)
        elif piece["same"]:
            parts.append(f"(?P={name})(?!\\d)")
        elif name:
            kind = _ANYTHING if name == "key" else _WORD if name in _WORDS else _NUMBER
            parts.append(f"(?P<{name}>{kind})")
        else:
            parts.append(r"\s+" if piece["blanks"] else re.escape(text))
    return "".join(parts) + (r"(?!\w)" if line[-1].isalnum() else "")


def _read() -> Iterator[LogLine]:
    for block in (get_data(__name__, "log_lines.txt") or b"").decode().split("\n\n"):
        if block.startswith("#"):
            continue
        head, *fields = block.strip().replace("\n  ", " ").splitlines()
        name, concern = head.split()
        pairs = [field.split(": ", 1) for field in fields]
        texts = dict(pairs)
        yield LogLine(
            name=name,
            concern=Concern(concern),
            title=texts["title"],
            since=texts["since"],
            until=texts.get("until"),
            meaning=texts["meaning"],
            codes=tuple(texts.get("codes", "").split()),
            origin=texts["origin"],
            lines=tuple(re.compile(_expression(text), re.IGNORECASE) for key, text in pairs if key == "line"),
            words=tuple(_words(text) for key, text in pairs if key == "line"),
        )


LOG_LINES: dict[str, LogLine] = {row.name: row for row in _read()}
