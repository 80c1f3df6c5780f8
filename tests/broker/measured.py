"""What consumers and operators have of a store once a real broker has started on it, message by message."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.topics import LMQ_PREFIX
from tests.broker import jvm
from tests.broker.stores import fixture_store
from tests.broker.whole_messages import Identity, Numbered, WholeMessage, whole_messages

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

_STORES_A_JVM = 100
_SECONDS_A_JVM = 540
_PLACEHOLDER = "RMQTOOL_LOST"
OF_ANOTHER = b"7E57"
"""Where the unique keys of messages of another broker begin."""

Queue = tuple[str, int]


class Outcome(NamedTuple):
    """What a consumer and an operator have after a start, in file queues: light ones are apart.

    Attributes:
        starts: Whether the broker gets through its start and dispatches all of its log.
        served: Queue offsets at which a pull delivers that queue's own whole message; None, as all that
            follows but `lost`, of a broker that does not start.
        wrong: Queue offsets at which it delivers anything else.
        unserved: Whole messages in the log that no offset of their queue delivers, be it another than theirs.
        unindexed: Whole messages with keys that a query by none of their keys finds.
        lost: Messages of the store before its damage that the log has no more, and that did not expire.
        reused: Queue offsets that were given before its damage and that the next messages get again.
        placeholders: Queue offsets at which a pull delivers what stands for a lost message.
    """

    starts: bool
    served: int | None
    wrong: int | None
    unserved: int | None
    unindexed: int | None
    lost: int
    reused: int | None
    placeholders: int | None


@dataclass(frozen=True)
class Copy:
    """A store that a broker is to start on, which changes it.

    Attributes:
        root: The store.
        conf: The broker's properties.
        fixture: Name of the store that it was before its damage; empty: what it is now.
        made: Places of the log that hold a salvage's own records.
        start: Where the log begins before anything is done.
    """

    root: Path
    conf: Path
    fixture: str = ""
    made: frozenset[int] = frozenset()
    start: int = 0


@dataclass(frozen=True)
class Original:
    """A store before its damage: its messages, and the end of each queue."""

    messages: tuple[WholeMessage, ...]
    ends: dict[Queue, int]


@dataclass
class Measured:
    """An outcome, and how it came about.

    Attributes:
        outcome: The figures.
        rows: What the broker said.
        wrong: Topic, queue id, queue offset and what is wrong, of each wrong delivery.
        unserved: Places of the log.
        unindexed: Places of the log.
        lost: Messages.
        light: Deliveries of light queues by kind.
    """

    outcome: Outcome
    rows: list[jvm.Row]
    wrong: list[tuple[str, int, int, str]] = field(default_factory=list)
    unserved: list[int] = field(default_factory=list)
    unindexed: list[int] = field(default_factory=list)
    lost: list[WholeMessage] = field(default_factory=list)
    light: Counter[str] = field(default_factory=Counter)

    @property
    def error(self) -> str:
        """What a start that failed died of, as far as it said so."""
        return str(self.rows[0].get("error", "")) if self.rows else "it came to no end"


def measured(copies: Sequence[Copy], version: jvm.Version) -> list[Measured]:
    """Start brokers on stores, many in one JVM; pull every offset and query every key."""
    with TemporaryDirectory(prefix="rmqtool-outcomes-") as folder:
        _learn({copy.fixture for copy in copies} - {""}, version, Path(folder))
        return [
            result
            for first in range(0, len(copies), _STORES_A_JVM)
            for result in _measured(copies[first : first + _STORES_A_JVM], version, Path(folder))
        ]


_ORIGINALS: dict[tuple[str, jvm.Version], Original] = {}


def _learn(fixtures: set[str], version: jvm.Version, folder: Path) -> None:
    """Look at undamaged stores, each once a process."""
    names = sorted(name for name in fixtures if (name, version) not in _ORIGINALS)
    stores = [fixture_store(name) for name in names]
    copies = [Copy(store.copy_to(folder / "originals" / store.name), store.conf) for store in stores]
    messages = [whole_messages(copy.root) for copy in copies]
    rows = _observed(copies, messages, version, folder) if copies else []
    for name, own, answers in zip(names, messages, rows, strict=True):
        _ORIGINALS[name, version] = Original(tuple(own), _ends(answers))


def _measured(copies: Sequence[Copy], version: jvm.Version, folder: Path) -> Iterator[Measured]:
    before = [whole_messages(copy.root) for copy in copies]
    rows = _observed(copies, before, version, folder)
    for copy, own, answers in zip(copies, before, rows, strict=True):
        known = _ORIGINALS.get((copy.fixture, version))
        yield _judged(copy, known or Original(tuple(own), _ends(answers)), answers)


def _observed(
    copies: Sequence[Copy], messages: Sequence[Sequence[WholeMessage]], version: jvm.Version, folder: Path
) -> list[list[jvm.Row]]:
    words: list[Path] = []
    for number, (copy, whole) in enumerate(zip(copies, messages, strict=True)):
        asked, answers = folder / f"{number}.questions", folder / f"{number}.answers"
        lines = [{"place": one.place, "topic": one.topic, "keys": one.keys} for one in whole if one.keys]
        asked.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        answers.write_text("")
        words += [copy.root, copy.conf, asked, answers]
    jvm.judge(version, "outcomes", *words, timeout=_SECONDS_A_JVM)
    return [_rows(path) for path in words[3::4]]


def _rows(path: Path) -> list[jvm.Row]:
    """Read what the broker said; nothing of one that came to no end."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return rows if rows and rows[-1]["type"] == "end" else []


def _ends(rows: list[jvm.Row]) -> dict[Queue, int]:
    return {(row["topic"], row["queueId"]): row["max"] for row in rows if row["type"] == "queue"}


def _judged(copy: Copy, was: Original, rows: list[jvm.Row]) -> Measured:
    starts = bool(rows) and bool(rows[0].get("settled"))
    after = whole_messages(copy.root)
    if not starts:
        theirs = _of_another(was, after)
        own = [one for one in after if not _is_made(one, copy) and one.place not in theirs]
        lost = list(_lost(was, copy.start, own))
        count = sum(one.messages for one in lost)
        return Measured(Outcome(False, None, None, None, None, count, None, None), rows, lost=lost)
    after = [one for one in after if rows[0]["minPhy"] <= one.place < rows[0]["maxPhy"]]
    theirs = _of_another(was, after)
    mine = [one for one in after if one.is_indexed and not _is_made(one, copy) and one.place not in theirs]
    result = Measured(Outcome(True, 0, 0, 0, 0, 0, 0, 0), rows)
    kinds: Counter[str] = Counter()
    delivered: set[tuple[Queue, int]] = set()
    numbers: set[Numbered] = set()
    for row, of_queue in _deliveries(rows, copy.made):
        kind = "wrong" if of_queue == "served" and row["place"] in theirs else of_queue
        if row["topic"].startswith(LMQ_PREFIX):
            result.light[kind] += 1
            continue
        kinds[kind] += 1
        if row.get("isWhole"):
            delivered.add(((row["topic"], row["queueId"]), row["place"]))
        if kind == "served":
            numbers.add((row["ofTopic"], row["ofQueueId"], row["ofOffset"]))
        if kind == "wrong":
            result.wrong.append((row["topic"], row["queueId"], row["offset"], _what(row)))
    finds = {row["place"] for row in rows if row["type"] == "query" and row["finds"]}
    for one, places in _with_their_copies(mine):
        result.unindexed += [one.place] * bool(one.keys and finds.isdisjoint(places))
        if one.is_dispatched:
            waiting = [queue for queue in one.queues if not any((queue, at) in delivered for at in places)]
            result.unserved += [one.place] * one.messages * len(waiting)
    result.lost = list(_lost(was, copy.start, mine, numbers))
    result.outcome = Outcome(
        True,
        kinds["served"],
        kinds["wrong"],
        len(result.unserved),
        len(result.unindexed),
        sum(one.messages for one in result.lost),
        _reused(was, _ends(rows)),
        kinds["placeholder"],
    )
    return result


def _of_another(was: Original, after: list[WholeMessage]) -> set[int]:
    """Return places of another broker's messages, by their keys, or their bodies if they have none."""
    bodies, marked = {one.body for one in was.messages}, OF_ANOTHER.decode()
    return {
        one.place
        for one in after
        if one.properties.get("UNIQ_KEY", "").startswith(marked)
        or ("UNIQ_KEY" not in one.properties and one.body not in bodies)
    }


def _with_their_copies(messages: list[WholeMessage]) -> Iterator[tuple[WholeMessage, list[int]]]:
    """Yield each message once, with the places of all records that are the same."""
    copies: defaultdict[Identity, list[WholeMessage]] = defaultdict(list)
    for one in messages:
        copies[one.identity].append(one)
    for same in copies.values():
        yield same[0], [one.place for one in same]


def _reused(was: Original, ends: dict[Queue, int]) -> int:
    return sum(
        max(end - ends.get(queue, 0), 0)
        for queue, end in was.ends.items()
        if not queue[0].startswith(LMQ_PREFIX)
    )


def _lost(
    was: Original, start: int, after: list[WholeMessage], served: Container[Numbered] = ()
) -> Iterator[WholeMessage]:
    """Yield messages that no whole record is, be it under a false number, and no pull has delivered either.

    Those before the damaged log's first file count as expired.
    """
    left, places = {one.numbered for one in after}, {(one.place, one.body) for one in after}
    for one in was.messages:
        is_there = one.numbered in left or (one.place, one.body) in places or one.numbered in served
        if one.is_dispatched and one.place >= start and not is_there:
            yield one


def _is_made(one: WholeMessage, copy: Copy) -> bool:
    return one.place in copy.made or _PLACEHOLDER in one.properties


def _deliveries(rows: list[jvm.Row], made: frozenset[int]) -> Iterator[tuple[jvm.Row, str]]:
    for row in rows:
        if row["type"] == "pull" and (kind := _kind(row, made)):
            yield row, kind


def _kind(row: jvm.Row, made: frozenset[int]) -> str:
    """Return what a pull at an offset delivers: nothing where it passes on to a later unit."""
    if not row.get("size"):  # neither an error nor an empty answer
        return ""
    if not row["decoded"]:
        return "wrong" if row["next"] == row["offset"] + 1 else ""
    properties = row.get("properties") or {}
    count = int(properties["INNER_NUM"]) if properties.get("INNER_NUM", "").isdigit() else 1
    if row["next"] > row["offset"] + count:
        return ""
    if not row["isWhole"] or not _is_own(row, properties, count):
        return "wrong"
    return "placeholder" if row["place"] in made or _PLACEHOLDER in properties else "served"


def _is_own(row: jvm.Row, properties: dict[str, Any], count: int) -> bool:
    queue = row["topic"], row["queueId"]
    if queue == (row["ofTopic"], row["ofQueueId"]):
        return bool(row["ofOffset"] <= row["offset"] < row["ofOffset"] + count)
    names = properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    return (row["topic"], str(row["offset"])) in zip(names, offsets, strict=False)


def _what(row: jvm.Row) -> str:
    if not row["decoded"]:
        return "no record"
    if not row["isWhole"]:
        return "a damaged body"
    return f"{row['ofTopic']}/{row['ofQueueId']} #{row['ofOffset']}"
