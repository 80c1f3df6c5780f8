"""Tag items: which messages have an index entry for their TAGS.

Source: ``IndexService#buildIndex`` (5.4.0, 5.5.1): behind the entries of UNIQ_KEY and KEYS one more for
``topic#T#TAGS``, where TAGS is there and not empty. Brokers before 5.4.0 put none, and nobody adds one later:
in a store that changed its broker a message has its tag item exactly if one of 5.4.0 or later dispatched it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rmqtool.errors import UsageError
from rmqtool.javacompat import decode_utf8, parse_long, string_hash

if TYPE_CHECKING:
    from rmqtool.releases import Release

INDEX_TYPE_TAG = "T"
"""``MessageConst#INDEX_TAG_TYPE`` (5.4.0): stands between topic and tags in the key of a tag item."""

_FIRST, _NEVER = -(1 << 63), (1 << 63) - 1
_FROM = "from:"


@dataclass(frozen=True, slots=True)
class TagItems:
    """Which messages have a tag item: those whose PHYSICALOFFSET is ``start`` or higher."""

    start: int

    @classmethod
    def of(cls, release: Release) -> Self:
        """Return what one release makes when it dispatches all messages."""
        return cls(_FIRST if release.tag_items else _NEVER)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``all``, ``none`` or ``from:PHY``.

        Raises:
            UsageError: It is none of them.
        """
        if text in {"all", "none"}:
            return cls(_FIRST if text == "all" else _NEVER)
        start = parse_long(text.removeprefix(_FROM)) if text.startswith(_FROM) else None
        if start is None or start < 0:
            raise UsageError(f"tag items {text!r}: give auto, all, none or from:PHY, PHY a physical offset")
        return cls(start)

    def __str__(self) -> str:
        return {_FIRST: "all", _NEVER: "none"}.get(self.start, f"{_FROM}{self.start}")


ALL_TAG_ITEMS, NO_TAG_ITEMS = TagItems(_FIRST), TagItems(_NEVER)


def index_seeds(raw_topic: bytes) -> tuple[int, int]:
    """Return the hashes of ``topic#`` and of ``topic#T#``, from which a key's or a tag's hash goes on.

    Java: ``IndexService#buildKey`` (5.3.3, 5.4.0).
    """
    keys = string_hash(decode_utf8(raw_topic) + "#")
    return keys, string_hash(INDEX_TYPE_TAG + "#", keys)
