"""Index keys of a message, from its properties, and tag items: which messages have an entry for their TAGS.

Source: ``IndexService#buildIndex`` (4.9.8, 5.3.3, 5.4.0, 5.5.1); the kernels do the same over bytes. Since
5.4.0 it puts after the entries of UNIQ_KEY and KEYS one more for ``topic#T#TAGS``, where TAGS is there and
not empty. Brokers before 5.4.0 put none, and nobody adds one later: in a store that changed its broker a
message has its tag item exactly if one of 5.4.0 or later dispatched it.

The present index shows the rule of a store, else its broker does. The index is sampled, not read: where
two samples differ, the place between them is searched to the message. Nothing of it is trusted: a message
counts only if its items are just those that its record demands.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqtool.derived.index_files import IndexFile, opened_index_files
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.javacompat import INDEX_TYPE_TAG, decode_utf8, has_tag_item, item_hashes, parse_long, string_hash
from rmqtool.scan.records import record_at
from rmqtool.store import FileQueue, Origin, Store
from rmqtool.store.broker_conf import BROKER_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rmqtool.releases import Release


def of_other_keys(store: Store, log: FileQueue, places: Collection[int]) -> set[int]:
    """Return those of some places to which an item leads that has the hash of none of its record's keys.

    A broker makes items of a record's own keys alone: one that leads to a record without any shows that it
    had some, or is left of another record there. Index files that cannot be read show nothing.
    """
    import numpy as np

    records = {place: record_at(log, place) for place in places}
    hashes = {
        place: set(item_hashes(record.topic, record.properties))
        for place, record in records.items()
        if record is not None
    }
    found, wanted = set[int](), np.array(sorted(hashes), np.int64)
    with suppress(EnvironmentFailureError):
        for index in opened_index_files(store) if len(wanted) else ():
            pairs = index.hashes_at(wanted)
            found |= {place for place, key_hash in pairs if key_hash not in hashes[place]}
    return found


_FIRST = -(1 << 63)
_WORDS = {"all": (_FIRST,), "none": ()}
_TURNS = ("from:", "to:")


class TagItems(NamedTuple):
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


_SAMPLES = 256
_MESSAGES_PER_SAMPLE = 16  # so many are read until one has tags
_LEAST_AROUND = 16  # items of a message that are read at once with one of them


class TagRule(NamedTuple):
    """The rule, and why.

    Attributes:
        value: which messages have tag items.
        origin: given, inferred or default.
        reason: one sentence.
        doubt: what the files leave open; empty if nothing.
    """

    value: TagItems
    origin: Origin
    reason: str
    doubt: str = ""

    @classmethod
    def given(cls, value: TagItems) -> Self:
        """Return a rule that the user chose."""
        return cls(value, Origin.GIVEN, "as requested")


class _Message(NamedTuple):
    """A message in the index.

    Attributes:
        stop: number, among the items of all files, after its last one.
        physical_offset: where its record lies.
        has_tag_item: None where it has no tags, or its items are not those of its record.
    """

    stop: int
    physical_offset: int
    has_tag_item: bool | None


def tag_rule(store: Store) -> TagRule:
    """Return the rule that made a store's index."""
    if store.settings.touched_by_5_4 is False:
        return _rule_of_release(store)  # no broker that puts them was here: what looks so is damage
    index = _Index(store)
    try:
        return _rule_of_index(index, store) or _rule_of_release(store)
    finally:
        index.close()


_EFFECTS = {"consumequeue": "refuses the queues", "index": "misreads the index"}


def assumptions(store: Store, parts: Collection[str], tags: TagRule | None) -> dict[str, str]:
    """Return the settings that no file shows and that derived files rest on, each with what that means."""
    assumed = {
        size.name: f"{size.value}, as no file shows it; a broker with another {_EFFECTS[size.part]}"
        for size in store.settings.assumed_sizes(parts)
    }
    if tags is not None and tags.doubt:
        assumed[BROKER_VERSION] = f"{store.settings.release.name}; {tags.doubt}"
    return assumed


def _rule_of_release(store: Store) -> TagRule:
    """Return what the broker that wrote the store last does with every message."""
    setting, release = store.settings[BROKER_VERSION], store.settings.release
    why = f" ({setting.note})" if setting.note else ""
    is_open = store.settings.of_all_candidates(lambda one: one.tag_items) is None
    doubt = "no file shows whether a broker of 5.4.0 or later, which also puts tags into the index, had the"
    return TagRule(
        TagItems.of(release),
        setting.origin,
        f"written by {release.name}{why}",
        f"{doubt} store: --broker-version" if is_open else "",
    )


def _rule_of_index(index: _Index, store: Store) -> TagRule | None:
    """Return what the present index shows; None where no message shows any."""
    samples = index.samples()
    if not samples:
        return None
    pairs = [
        (message, two) for message, two in pairwise(samples) if message.has_tag_item is not two.has_tag_item
    ]
    begin = ALL_TAG_ITEMS if samples[0].has_tag_item else NO_TAG_ITEMS
    value = TagItems((*begin.turns, *(index.turn(*pair) for pair in pairs)))
    reason = f"so it is with {len(samples)} sampled messages of the present index"
    return TagRule(value, Origin.INFERRED, reason)


class _Index:
    """The items of all index files as one sequence, numbered from 0."""

    def __init__(self, store: Store) -> None:
        self._log = store.commitlog
        geometry = store.settings.index_geometry
        self._files = [IndexFile(file, geometry) for file in store.index_files]
        self._stops = list(accumulate(file.last_item for file in self._files))
        self._total = self._stops[-1] if self._stops else 0

    def close(self) -> None:
        for index_file in self._files:
            index_file.file.close()

    def samples(self) -> list[_Message]:
        """Return messages all over the index that have tags, in its order; closely at both ends."""
        even = range(0, self._total, max(self._total // _SAMPLES, 1))
        ends = [1 << power for power in range(self._total.bit_length())]
        numbers = sorted({0, *even, *ends, *(self._total - number for number in ends)})
        messages: dict[int, _Message] = {}
        for number, after in pairwise([*numbers, self._total]):
            message = self._first_telling(number, after, _MESSAGES_PER_SAMPLE)
            if message is not None:
                messages[message.stop] = message
        return list(messages.values())

    def turn(self, before: _Message, after: _Message) -> int:
        """Return the physical offset of the first message that is like the later of two that differ."""
        low, high, first = before.stop, after.stop, after.physical_offset
        while low < high:
            middle = (low + high) // 2
            message = self._first_telling(middle, high, None)
            if message is None:
                high = middle
            elif message.has_tag_item is after.has_tag_item:
                high, first = middle, message.physical_offset
            else:
                low = message.stop
        return first

    def _first_telling(self, start: int, stop: int, most: int | None) -> _Message | None:
        """Return the first message that shows the rule, of those with items in ``[start, stop)``."""
        for count, message in enumerate(self._messages(start, stop)):
            if message.has_tag_item is not None:
                return message
            if count + 1 == most:
                break
        return None

    def _messages(self, start: int, stop: int) -> Iterator[_Message]:
        while start < stop:
            message = self._message(start)
            yield message
            start = message.stop

    def _message(self, number: int) -> _Message:
        """Return the message that an item belongs to."""
        file, own = self._place(max(number - _LEAST_AROUND, 0))
        self._files[file].focus(own)
        _, offset = self._item(number)
        record = record_at(self._log, offset)
        if record is None:
            return _Message(number + 1, offset, None)
        demanded = item_hashes(record.topic, record.properties)
        start = stop = number
        while start > 0 and number - start < len(demanded) and self._item(start - 1)[1] == offset:
            start -= 1
        while stop < self._total and stop - start < len(demanded) and self._item(stop)[1] == offset:
            stop += 1
        hashes = [self._item(item)[0] for item in range(start, stop)]
        return _Message(max(stop, number + 1), offset, has_tag_item(record.properties, demanded, hashes))

    def _place(self, number: int) -> tuple[int, int]:
        """Return the number of an item's file, and its number there."""
        file = bisect_right(self._stops, number)
        return file, number - (self._stops[file - 1] if file else 0) + 1

    def _item(self, number: int) -> tuple[int, int]:
        """Return hash and physical offset of an item; of one that is not there what no message has."""
        file, own = self._place(number)
        item = self._files[file].item(own)
        return (-1, -1) if item is None else (item.key_hash, item.physical_offset)
