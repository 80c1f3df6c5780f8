"""Tables of fields of the formats, from the schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.errors import UsageError
from rmqtool.formats import layout
from rmqtool.rows import LayoutField
from rmqtool.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.store import PathKind


def layout_rows(kind: PathKind | None = None) -> Iterator[LayoutField]:
    """Yield the fields of one kind of file, UsageError if it is text, or of all; a message has IPv4 hosts."""
    kinds = tuple(KINDS) if kind is None else (kind,)
    if not any(KINDS[one].schemas for one in kinds):
        raise UsageError("--layout: files in config/ are JSON; they have no fields at fixed places")
    for one_kind in kinds:
        for structure, schema in KINDS[one_kind].schemas.items():
            for one in layout(schema, sysFlag=0):
                yield LayoutField(
                    structure, one.name, one.java_name, one.offset, one.size, one.unit, one.meaning
                )
