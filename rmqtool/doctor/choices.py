"""Choices between copies of a file, and their effects: messages delivered again, messages skipped.

To a reader without an offset a broker returns 0 if the queue's first message exists and is in memory, and
nothing otherwise; the client then begins at the end, or where its settings say
(``ConsumerManageProcessor#queryConsumerOffset``, ``RebalancePushImpl#computePullFromWhere``, 4.9.8, 5.3.3).
Delay levels without one begin at the start (``ScheduleMessageService#start``).
"""

from __future__ import annotations

import json
from contextlib import suppress
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.doctor import ConfigCopy, ConfigKind, CopyState
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import counted
from rmqtool.store.broker_json import DELAYS, LARGEST_CONFIG, OffsetPlace, Offsets
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rmqtool.derived.queues import Bounds
    from rmqtool.io import Location
    from rmqtool.store import Store


class BrokerTakes(StrEnum):
    """Copy that a broker started on these files loads (``ConfigManager#load``)."""

    FILE = "file"
    BACKUP = "bak"
    NOTHING = "nothing"  # it starts, and has forgotten everything
    REFUSES = "refuses"  # it does not start
    UNKNOWN = "unknown"  # a copy that decides may not be read here


def _consequences(effect: OffsetEffect | ConfigChoice) -> str:
    """Return how many messages come again, and how many never come."""
    least, most = effect.again_at_least, effect.again_at_most
    bound = "" if least == most else f"{least:,} to " if least else "at most "
    skipped = f"at most {effect.skipped_at_most:,}" if effect.skipped_at_most else "none"
    return f"redelivers {f'{bound}{most:,}' if most else 'none'}, skips {skipped}"


class OffsetEffect(NamedTuple):
    """Effect of a choice on one reader of one queue; numbers are messages of that queue.

    The reader's real progress is unknown. Known are its least progress, by the remaining copies (``proven``),
    and the end of the queue.

    Attributes:
        reader: ``group G`` or ``delay level N``.
        topic: topic of the queue.
        queue_id: number of the queue.
        offset: next queue offset to read by this choice; None if it has none: the reader starts again.
        proven: the highest offset in any copy; None without any.
        min_offset: least offset of the queue; None without a queue.
        max_offset: end of the queue; None without a queue.
        again_at_least: messages that are delivered again for certain.
        again_at_most: messages that may be delivered again.
        skipped_at_most: messages that may never be delivered.
    """

    reader: str
    topic: str
    queue_id: int
    offset: int | None
    proven: int | None
    min_offset: int | None
    max_offset: int | None
    again_at_least: int
    again_at_most: int
    skipped_at_most: int

    @property
    def consequences(self) -> str:
        """Say how many messages come again, and how many never come."""
        return _consequences(self)


class ConfigChoice(NamedTuple):
    """One choice of a file's content.

    Attributes:
        name: ``file``, ``bak``, ``tmp``, ``whole``, ``prefix``, ``merged``, ``queues``, ``groups``,
            ``sent-back``, ``oldest``, ``newest`` or ``empty``.
        about: description.
        document: content.
        copy_of: copy with the same bytes, relative to the store; None if it is combined.
        entries: number of its entries.
        missing: entries of other copies, or of queues, that this choice lacks.
        again_at_least: sum of its effects.
        again_at_most: sum of its effects.
        skipped_at_most: sum of its effects.
        effects: effects by reader and queue; empty for files without offsets.
    """

    name: str
    about: str
    document: dict[str, Any]
    copy_of: str | None = None
    entries: int = 0
    missing: tuple[str, ...] = ()
    again_at_least: int = 0
    again_at_most: int = 0
    skipped_at_most: int = 0
    effects: tuple[OffsetEffect, ...] = ()

    def consequences(self) -> list[str]:
        """Return the number of entries and the effects on readers, as parts of a sentence."""
        said = [counted(self.entries, "entry", "entries", spec=",")]
        if self.effects:
            said.append(_consequences(self))
        return said

    def data(self, root: Location) -> bytes:
        """Return its bytes: those of a copy, or JSON that brokers of all versions read.

        Keys stand in quotes, bytes that are not UTF-8 stay as they were. Raises `EnvironmentFailureError` if
        the copy can no longer be read.
        """
        if self.copy_of is not None:
            return (root / self.copy_of).read_head(LARGEST_CONFIG)
        text = json.dumps(self.document, ensure_ascii=False, indent=1)
        return text.encode("utf-8", "surrogateescape")


class ConfigDiagnosis(NamedTuple):
    """Remaining copies of one file, and the choices between them.

    Attributes:
        file: its name relative to the store.
        copies: the file itself, its ``.bak`` and its ``.tmp``, if they exist.
        broker: copy that a broker loads at its next start.
        loses: what a broker without any copy has forgotten; continues a sentence.
        choices: choices, the best first; empty for an intact file, and where a copy was not read.
        obvious: whether the first choice loses nothing that another one keeps; else the user has to choose.
    """

    file: str
    copies: tuple[ConfigCopy, ...]
    broker: BrokerTakes
    loses: str
    choices: tuple[ConfigChoice, ...]
    obvious: bool

    @property
    def is_sound(self) -> bool:
        """Whether a broker reads the file itself."""
        return self.broker is BrokerTakes.FILE

    @property
    def denied(self) -> tuple[ConfigCopy, ...]:
        """The copies that were not read."""
        return tuple(copy for copy in self.copies if copy.state is CopyState.DENIED)

    @property
    def name(self) -> str:
        """Name of the file in ``config/``."""
        return self.file.removeprefix("config/")

    @property
    def names(self) -> str:
        """Names of the choices, for a sentence."""
        return ", ".join(choice.name for choice in self.choices)

    def choice(self, name: str) -> ConfigChoice | None:
        """Return a choice by its name; None if there is none such."""
        return next((choice for choice in self.choices if choice.name == name), None)

    def wanted(self, name: str) -> ConfigChoice:
        """Return the choice that the user names; UsageError if there is none such."""
        if (choice := self.choice(name)) is None:
            raise UsageError(f"--config {self.name}={name}: choose from {self.names or 'none'}")
        return choice


class QueueEnds:
    """Queues of a store, by topic and number.

    ``made`` are queues that a repair will make, and whether they are batch queues.
    """

    def __init__(self, store: Store, made: Iterable[tuple[str, int, bool]] = ()) -> None:
        self._store = store
        self._made: dict[str, set[int]] = {}
        self.batch_topics = set(store.settings.batch_topics)
        for topic, queue_id, batch in made:
            self._made.setdefault(topic, set()).add(queue_id)
            self.batch_topics |= {topic} if batch else set()

    def bounds(self, topic: str, queue_id: int) -> Bounds | None:
        """Return the bounds of a queue; None if it does not exist or cannot be read."""
        from rmqtool.derived.queues import bounds_of  # loads numpy, for stores that need it

        with suppress(EnvironmentFailureError):  # the check of that queue reports it
            return self._store.once(bounds_of, topic, queue_id)
        return None

    def queue_ids(self, topic: str) -> list[int]:
        """Return the numbers of a topic's queues."""
        ids = {*self._made.get(topic, ())}
        with suppress(EnvironmentFailureError):  # as above
            for kind in UNIT_QUEUE_KINDS:
                queues = self._store.queues(kind, topic)
                ids.update(queue.queue_id for queue in queues if queue.queue_id is not None)
        return sorted(ids)

    def topics(self) -> Iterator[tuple[str, int]]:
        """Yield the topics that have queues, each with one more than the highest number of its queues."""
        names = dict.fromkeys(self._made)
        for kind in UNIT_QUEUE_KINDS:
            with suppress(EnvironmentFailureError):  # as above
                names |= dict.fromkeys(self._store.topics(kind))
        for name in names:
            if numbers := self.queue_ids(name):
                yield name, max(numbers) + 1


def proven_offsets(copies: Iterable[Offsets]) -> Offsets:
    """Return the highest offset of each place: the reader reached it once."""
    highest: Offsets = {}
    for offsets in copies:
        for place, offset in offsets.items():
            highest[place] = max(offset, highest.get(place, 0))
    return highest


def effects_of(
    choice: Offsets,
    places: Iterable[OffsetPlace],
    proven: Mapping[OffsetPlace, int],
    kind: ConfigKind,
    ends: QueueEnds,
) -> Iterator[OffsetEffect]:
    """Yield the effects of a choice, by reader, topic and queue.

    ``places`` are all known ones; ``proven`` are the highest offsets of any copy.
    """
    named = ((place.reader(kind.name), place) for place in places)
    for reader, place in sorted(((who, key) for who, key in named if who is not None), key=itemgetter(0)):
        yield _effect(reader, choice.get(place), proven.get(place), kind, ends)


def _effect(
    reader: tuple[str, str, int], offset: int | None, proven: int | None, kind: ConfigKind, ends: QueueEnds
) -> OffsetEffect:
    bounds = ends.bounds(*reader[1:])
    if bounds is None:
        least = 0 if offset is None or proven is None else max(proven - offset, 0)
        over = 0 if offset is None or proven is None else max(offset - proven, 0)
        return OffsetEffect(*reader, offset, proven, None, None, least, least, over)
    low, high = bounds
    had = min(max(low if proven is None else proven, low), high)
    if offset is not None:
        at = min(max(offset, low), high)
        again = max(had - at, 0), high - at
        return OffsetEffect(*reader, offset, proven, low, high, *again, max(at - had, 0))
    if kind.name == DELAYS:
        return OffsetEffect(*reader, None, proven, low, high, had - low, high - low, 0)
    return OffsetEffect(*reader, None, proven, low, high, 0, high - low, high - had)
