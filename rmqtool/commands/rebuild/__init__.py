"""``rebuild``: ``consumequeue/`` and ``index/`` out of the log, as a running master's reput builds them.

Here are the options, and those of them by which another result would be made. ``run`` goes from them to
files, ``compare`` compares these with those that are there, ``report`` is the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool import options
from rmqtool.dispatch.index_keys import TagItems
from rmqtool.engine import Engine, EngineOptions, options_of
from rmqtool.errors import UsageError
from rmqtool.projection import shared_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqtool.account.lost import LostMessage
    from rmqtool.store import Store
    from rmqtool.store.results import Target

AUTO = "auto"
PARTS = frozenset({"consumequeue", "index"})
_DIRECTORIES = {
    "consumequeue": ("consumequeue", "consumequeue_ext", "batchconsumequeue"),
    "index": ("index",),
}


class Generations(StrEnum):
    """Values of ``--generations``."""

    AUTO = "auto"  # those that live, where the queue that is there shows which they are
    LIVE = "live"  # those after the last restart of queue offsets
    ALL = "all"  # what a broker makes of the log alone


def _tag_items(text: str) -> TagItems | None:
    return None if text == AUTO else TagItems.parse(text)


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Options that a result depends on, beside the store's settings; ``--resume`` compares them.

    Attributes:
        parts: ``consumequeue`` (with ext and batch queues), ``index``, or both, by name.
        topics: globs of topics to take; empty takes all.
        exclude_topics: globs of topics to leave out.
        until_timestamp_ms: nothing stored later.
        until_offset: physical offset to stop at.
        tag_items: which messages get an index entry for their tags; None: as the store shows.
        generations: which messages of a topic that was created again get units.
    """

    parts: frozenset[str] = PARTS
    topics: tuple[str, ...] = options.names(
        "Only these topics; partial.", name="topic", flags=("-t", "--topic")
    )
    exclude_topics: tuple[str, ...] = options.names(
        "All topics but these; partial result.", name="exclude_topic"
    )
    until_timestamp_ms: int | None = options.moment(
        "until_timestamp", f"Only messages stored until this time; partial result. {options.TIMES_HELP}"
    )
    until_offset: int | None = options.number("Stop at this physical offset; partial.", metavar="P")
    tag_items: TagItems | None = options.text(
        "Messages that get an index entry for their tags, as brokers since 5.4.0 write one; auto: as in the"
        " present index, else as the store's broker does.",
        "auto|all|none|from:PHY",
        AUTO,
        convert=_tag_items,
    )
    generations: Generations = options.word(
        Generations,
        Generations.AUTO,
        "Messages of a topic that was deleted and created again. all: as a broker rebuilds from the log"
        " alone; live: those after the last restart of queue offsets; auto: live where the present queue"
        " shows that restart.",
    )

    @property
    def sorted_parts(self) -> tuple[str, ...]:
        """Return the parts, by name."""
        return tuple(sorted(self.parts))

    @property
    def tag_words(self) -> str:
        """Return the tag items as the option has them."""
        return AUTO if self.tag_items is None else str(self.tag_items)

    @property
    def is_partial(self) -> bool:
        """Whether messages are left out."""
        until = self.until_timestamp_ms is not None or self.until_offset is not None
        return bool(self.topics or self.exclude_topics) or until


@dataclass(frozen=True, kw_only=True)
class RebuildRequest(ResultOptions):
    """Request of a rebuild.

    Attributes:
        store: The evidence.
        out: Directory to create, or where in object storage; None with ``compare`` or ``dry_run`` alone.
        engine: Engine of the stages; an open one stays open.
        own: A directory inside the store that is the caller's to write ``out`` into, as that of a repair.
        tell_lost: Receives every message that the result lacks; None if unwanted.
        tell_queue: Receives topic and number of every queue of the result, and whether it is a batch queue.
    """

    store: Store
    out: Target | None
    engine: EngineOptions | Engine
    dry_run: bool = options.flag("Plan and count, write nothing.")
    compare: bool = options.flag("Compare with the store's present files, byte by byte.")
    live: bool = options.live()
    max_findings: int = options.max_findings(10, "shown", least=0)
    own: Path | None = None
    tell_lost: Callable[[LostMessage], object] | None = None
    tell_queue: Callable[[str, int, bool], object] = lambda _topic, _queue_id, _batch: None

    @property
    def result_options(self) -> ResultOptions:
        """Return the options that the result depends on."""
        return ResultOptions(**shared_fields(self, ResultOptions))

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the directories that the parts are made of."""
        return tuple(name for part in self.sorted_parts for name in _DIRECTORIES[part])

    def check(self) -> None:
        """Check that the options agree."""
        if not self.parts or not self.parts <= PARTS:
            raise UsageError(f"parts={[*self.sorted_parts]}: give {' or '.join(sorted(PARTS))}, or both")
        if self.out is None and not (self.compare or self.dry_run):
            raise UsageError("nothing to do: give --out DIR for the result, or --compare, or --dry-run")
        if self.out is not None and options_of(self.engine).scratch is not None:
            raise UsageError(
                "--scratch is for runs without --out: tasks write the result into --out themselves, and"
                " hand over blocks there, too; where they do not see this machine's folders, give a URL for"
                " it, and fetch the result"
            )
        if self.tell_lost is not None and (self.is_partial or "consumequeue" not in self.parts):
            raise UsageError(
                "--lost is of a whole rebuild: give no topics, no --until-..., and make the queues"
            )
