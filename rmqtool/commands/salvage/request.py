"""Options of a salvage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool import options
from rmqtool.salvage.causes import Holes

if TYPE_CHECKING:
    from rmqtool.engine import EngineOptions
    from rmqtool.salvage.gathering import LogCopies
    from rmqtool.store import Store


@dataclass(frozen=True)
class SalvageRequest:
    """What to salvage, and how; ``stores`` are copies of one log, of which the first leads."""

    stores: tuple[Store, ...]
    engine: EngineOptions
    holes: Holes = options.word(
        Holes,
        Holes.TOMBSTONE,
        "Replacement of lost messages. tombstone: a message that says so; repeat: the unit before, again;"
        " filler: nothing, so queue offsets shift; cut: the log ends at the first hole.",
    )
    keep_damaged: bool = options.flag(
        "Keep records whose bodies or properties fail their checksums or are torn, as they are."
    )
    include_stale: bool = options.flag("Keep what looks like old bytes after a rewritten tail.")
    topics: tuple[str, ...] = options.names(
        "Only these topics, others become fillers; partial result.", name="topic"
    )
    exclude_topics: tuple[str, ...] = options.names(
        "All topics but these; partial result.", name="exclude_topic"
    )
    until_timestamp_ms: int | None = options.moment(
        "until_timestamp", f"Only messages stored until this time; partial result. {options.TIMES_HELP}"
    )
    until_offset: int | None = options.number(
        "Only records that end at or before this physical offset; partial result.", metavar="P"
    )
    live: bool = options.live()

    @property
    def copies(self) -> LogCopies:
        """Return the stores as copies of one log."""
        from rmqtool.salvage.gathering import LogCopies  # of numpy, which help needs not

        return LogCopies(self.stores)
