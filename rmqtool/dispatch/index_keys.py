"""By which keys a message is indexed, from its properties; the kernels do the same over bytes.

Source: ``IndexService#buildIndex`` (4.9.8, 5.3.3, 5.5.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.javacompat import split_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

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
