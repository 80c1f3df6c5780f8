"""The broker's JSON files, word by word: names become other names, what cannot be parsed still cannot be."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rmqtool.commands.metadump.words import BROKER_WORDS

if TYPE_CHECKING:
    from rmqtool.commands.metadump.disguise import Disguise

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|"|[A-Za-z_\u0080-\U0010ffff\udc80-\udcff][\w\udc80-\udcff]*')
_INTEGER = re.compile(r"-?[0-9]+")
_BARE = frozenset({"true", "false", "null"})
_PARTS = re.compile(r"([@,])")


def disguised_config(data: bytes, disguise: Disguise) -> bytes:
    """Return a JSON file with other names; numbers, signs and blanks stay."""
    text = data.decode("utf-8", "surrogateescape")
    found = _WORD.sub(lambda match: _word(match, disguise), text)
    return found.encode("utf-8", "surrogateescape")


def _word(match: re.Match[str], disguise: Disguise) -> str:
    whole, inside = match[0], match[1]
    if inside is None:
        return whole if whole in _BARE or whole == '"' else _name(whole, disguise)
    try:
        value = json.loads(whole)
    except ValueError:  # no escape of JSON in it: it stays wrong
        return f'"{_name(inside, disguise)}"'
    if value in BROKER_WORDS or _INTEGER.fullmatch(value):
        return whole
    parts = "".join(one if _PARTS.fullmatch(one) else _name(one, disguise) for one in _PARTS.split(value))
    return json.dumps(parts, ensure_ascii=False) if parts.isprintable() else json.dumps(parts)


def _name(text: str, disguise: Disguise) -> str:
    return disguise.name(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
