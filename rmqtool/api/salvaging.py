"""What can be said of how to salvage."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from rmqtool.api.arguments import check_least, names_of, time_ms
from rmqtool.commands.salvage import SalvageRequest
from rmqtool.engine import EngineOptions
from rmqtool.errors import UsageError
from rmqtool.salvage.model import Holes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from rmqtool.api.arguments import Time
    from rmqtool.store import Store


class SalvageOptions(TypedDict, total=False):
    """Options of a salvage; those from ``topic`` to ``until_offset`` make the result partial.

    Attributes:
        holes: What takes the place of lost messages: ``tombstone``, ``repeat``, ``filler`` or ``cut``.
        keep_damaged: Give records back whose bodies or properties are damaged, as they are.
        include_stale: Give back what looks like old bytes behind a rewritten tail.
        topic: Globs of topics to take; messages of others become fillers.
        exclude_topic: Globs of topics to leave out.
        until_timestamp: Nothing stored later.
        until_offset: Nothing that reaches beyond this physical offset.
        live: Read a store whose lock a broker holds.
        jobs: Tasks at a time; None is all cores.
    """

    holes: str
    keep_damaged: bool
    include_stale: bool
    topic: str | Iterable[str]
    exclude_topic: str | Iterable[str]
    until_timestamp: Time | None
    until_offset: int | None
    live: bool
    jobs: int | None


def salvage_request(
    stores: tuple[Store, ...], zone: tzinfo | None, options: SalvageOptions
) -> SalvageRequest:
    """Return the request that options stand for.

    Raises:
        UsageError: One of them makes no sense.
    """
    unknown = options.keys() - SalvageOptions.__annotations__.keys()
    if unknown:
        raise UsageError(f"{', '.join(sorted(unknown))}: not an option of salvage")
    holes, until_offset = options.get("holes", "tombstone"), options.get("until_offset")
    check_least(0, until_offset=until_offset)
    if holes not in set(Holes):
        raise UsageError(f"holes={holes!r}: give {', '.join(Holes)}")
    return SalvageRequest(
        stores,
        EngineOptions("local", options.get("jobs")),
        holes=Holes(holes),
        keep_damaged=options.get("keep_damaged", False),
        include_stale=options.get("include_stale", False),
        topics=names_of(options.get("topic", ())),
        exclude_topics=names_of(options.get("exclude_topic", ())),
        until_timestamp_ms=time_ms("until_timestamp", options.get("until_timestamp"), zone),
        until_offset=until_offset,
        live=options.get("live", False),
    )
