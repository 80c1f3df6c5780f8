"""Index keys of a message, from its properties, and tag items: which messages have an entry for their TAGS.

Source: ``IndexService#buildIndex`` (4.9.8, 5.3.3, 5.4.0, 5.5.1); the kernels do the same over bytes. Since
5.4.0 it puts after the entries of UNIQ_KEY and KEYS one more for ``topic#T#TAGS``, where TAGS is there and
not empty. Brokers before 5.4.0 put none, and nobody adds one later: in a store that changed its broker a
message has its tag item exactly if one of 5.4.0 or later dispatched it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rmqtool.errors import UsageError
from rmqtool.javacompat import decode_utf8, parse_long, split_keys, string_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.releases import Release


INDEX_TYPE_TAG = "T"
"""``MessageConst#INDEX_TAG_TYPE`` (5.4.0): stands between topic and tags in the key of a tag item."""


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the unique key and the keys, in the order in which they are put."""
    unique = properties.get("UNIQ_KEY")
    keys = split_keys(properties.get("KEYS", ""))
    return keys if unique is None else [unique, *keys]


def item_keys(properties: Mapping[str, str]) -> list[str]:
    """Return what stands in the place of a key for every item that a message can have, the tag's last."""
    tags = properties.get("TAGS", "")
    return [*index_keys(properties), *([tag_key(tags)] if tags else [])]


def tag_key(tags: str) -> str:
    """Return what stands in the place of a key for the tag item (5.4.0+); all of TAGS is one tag."""
    return f"{INDEX_TYPE_TAG}#{tags}"


_FIRST = -(1 << 63)
_WORDS = {"all": (_FIRST,), "none": ()}
_TURNS = ("from:", "to:")


@dataclass(frozen=True, slots=True)
class TagItems:
    """Range of messages with a tag item.

    Attributes:
        turns: physical offsets, ascending; messages from the first on have one, from the second on none, and
            so on, by their PHYSICALOFFSET. Brokers that took turns in a store leave more than one.
    """

    turns: tuple[int, ...]

    @classmethod
    def of(cls, release: Release) -> Self:
        """Return what one release makes when it dispatches all messages."""
        return cls(_WORDS["all" if release.tag_items else "none"])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``all``, ``none``, or ``from:PHY`` and ``to:PHY`` by turns, with commas between."""
        if text in _WORDS:
            return cls(_WORDS[text])
        pieces = text.split(",")
        skipped = int(pieces[0].startswith("to:"))
        words = [_TURNS[(number + skipped) % 2] for number in range(len(pieces))]
        turns = [
            parse_long(piece.removeprefix(word)) if piece.startswith(word) else None
            for piece, word in zip(pieces, words, strict=True)
        ]
        known = [turn for turn in turns if turn is not None and turn >= 0]
        if len(known) < len(turns) or known != sorted(set(known)):
            raise UsageError(
                f"tag items {text!r}: give auto, all, none or from:PHY, PHY a physical offset; if brokers "
                "took turns, from:PHY,to:PHY,... in ascending order"
            )
        return cls((*(_FIRST for _ in range(skipped)), *known))

    def __str__(self) -> str:
        named = [f"{_TURNS[number % 2]}{turn}" for number, turn in enumerate(self.turns) if turn != _FIRST]
        words = {turns: word for word, turns in _WORDS.items()}
        return words.get(self.turns) or ",".join(named)


ALL_TAG_ITEMS, NO_TAG_ITEMS = TagItems.parse("all"), TagItems.parse("none")


def index_seeds(raw_topic: bytes) -> tuple[int, int]:
    """Return the hashes of ``topic#`` and of ``topic#T#``, from which a key's or a tag's hash goes on.

    Java: ``IndexService#buildKey`` (5.3.3, 5.4.0).
    """
    keys = string_hash(decode_utf8(raw_topic) + "#")
    return keys, string_hash(INDEX_TYPE_TAG + "#", keys)
