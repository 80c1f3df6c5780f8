"""``explain``: kinds of lines of a log, and the places in a store that they name."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

from rmqtool.derived.positions import consumed_offsets
from rmqtool.derived.queues import bounds_of, queues_of
from rmqtool.errors import UsageError
from rmqtool.findings import CATALOG, Finding, FindingCode, Findings, Severity, counted, some
from rmqtool.findings.log_lines import LOG_LINES, Concern, LogLine, recognised
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.retention.deletion import Deletions, is_known, retention_words
from rmqtool.scan.record_walk import LogExtent
from rmqtool.scan.records import record_at
from rmqtool.times import present_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store import Store

_KEPT = 5
"""Different numbers and words of one kind of line that are kept."""
_LONGEST = 8192
_OF_RETENTION = frozenset({"disk-full", "store-refuses", "cleaning-fails"})
_WORST = {Severity.ERROR: "bad", Severity.WARNING: "look"}

Values = dict[str, int | float | str]
ALL = "all"


@dataclass(slots=True)
class ExplainedLine:
    """All lines of one kind.

    Attributes:
        name: Of the kind; stable.
        line: The first of them.
        count: Number of them.
        concern: Harm that such a line shows by itself: ``harmless``, ``look`` or ``bad``.
        title: The same in a few words.
        meaning: Cause and effect.
        since: First release that writes it, of those from 4.0.0 on.
        until: Last release; None if the newest writes it.
        codes: Finding codes of stores in which that did harm; none where one store does not show it.
        origin: Java ``Class#method`` that writes it, and the log's file unless that is store.log.
        numbers: Numbers and words in it, those of the first lines that differ.
        here: Harm of that kind in the store: ``bad``, ``look``, ``nothing``; None without a store, and where
            one store does not show it.
        places: The places that the lines name, as they are in the store, a sentence each.
        findings: Number of the store's findings of each of the codes.
        remedies: Their remedies, by code.
    """

    type: ClassVar = "line"
    name: str
    line: str
    count: int
    concern: Concern
    title: str
    meaning: str
    since: str
    until: str | None
    codes: tuple[str, ...]
    origin: str
    numbers: list[Values] = field(default_factory=list)
    here: str | None = None
    places: list[str] = field(default_factory=list)
    findings: dict[str, int] = field(default_factory=dict)
    remedies: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, row: LogLine, line: str = "", count: int = 0) -> ExplainedLine:
        """Return lines of a kind; of none, the entry of the catalogue."""
        said = (row.concern, row.title, row.meaning, row.since, row.until, row.codes, row.origin)
        return cls(row.name, line, count, *said)


def explained_lines(lines: Iterable[str]) -> list[ExplainedLine]:
    """Return the kinds of lines that say something of a store, in the order of their first lines."""
    kinds: dict[str, ExplainedLine] = {}
    for line in lines:
        match = recognised(line[:_LONGEST])
        if match is None:
            continue
        kind = kinds.setdefault(match.row.name, ExplainedLine.of(match.row, line[:_LONGEST].strip()))
        kind.count += 1
        if match.numbers and match.numbers not in kind.numbers and len(kind.numbers) < _KEPT:
            kind.numbers.append(match.numbers)
    return list(kinds.values())


def named(text: str) -> tuple[tuple[FindingCode, ...], list[ExplainedLine]]:
    """Return the finding codes and kinds of lines of a name or a glob; `UsageError` if none has it."""
    wanted = text.strip().lower()
    pattern = "*" if wanted == ALL else wanted
    codes = tuple(entry for code, entry in CATALOG.items() if fnmatchcase(code.lower(), pattern))
    lines = [ExplainedLine.of(row) for name, row in LOG_LINES.items() if fnmatchcase(name, pattern)]
    if codes or lines:
        return codes, lines
    names = {name.lower(): name for name in (*CATALOG, *LOG_LINES)}
    close = get_close_matches(wanted, names, n=3, cutoff=0.5)
    near = " or ".join(names[name] for name in close)
    hint = f"did you mean {near}?" if close else "explain all lists them"
    raise UsageError(f"no finding code and no kind of line is called {text!r}; {hint}")


def look_up(line: ExplainedLine, store: Store, findings: Findings) -> None:
    """Add what a store has at the places of a kind of lines, and those findings that are meant.

    Raises:
        EnvironmentFailureError: A file cannot be opened or read.
    """
    line.places = list(dict.fromkeys(place for values in line.numbers for place in _places(store, values)))
    if line.name in _OF_RETENTION and is_known(store):
        ratios = [value for values in line.numbers for value in values.values() if isinstance(value, float)]
        deletions = Deletions(store, present_ms(), 100 * max(ratios) if ratios else None)
        line.places.append(retention_words(deletions))
    meant = [finding for finding in findings if finding.code.code in line.codes]
    line.findings = {code: findings.counts[code] for code in line.codes if code in findings.counts}
    if line.codes:
        line.here = min((_WORST.get(finding.severity, "nothing") for finding in meant), default="nothing")
    harmful = [finding for finding in meant if finding.severity in _WORST]
    line.remedies = {finding.code.code: finding.remedy for finding in reversed(harmful)}
    there = (finding for finding in meant if _is_at(finding, line.numbers))
    line.places += [f"{finding.code.code}: {finding.sentence}" for finding in there][:_KEPT]


def _is_at(finding: Finding, numbers: Iterable[Values]) -> bool:
    """Whether a finding is at a place, or in a queue, that a line names."""
    start = finding.physical_offset
    for values in numbers:
        place, queue = values.get("physicalOffset"), (values.get("topic"), values.get("queueId"))
        if isinstance(place, int) and start is not None and start <= place < start + (finding.length or 1):
            return True
        if finding.topic is not None and (finding.topic, finding.queue_id) == queue:
            return True
    return False


def _places(store: Store, values: Values) -> Iterator[str]:
    """Yield what lies at the places that one line names."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    settings, topic = store.settings, values.get("topic")
    starts = {segment.start for segment in store.commitlog}
    address, size = numbers.get("address"), numbers.get("fileSize")
    if "physicalOffset" in numbers:
        yield _in_log(store, numbers["physicalOffset"])
    elif {"fileStart", "position"} <= numbers.keys() and numbers["fileStart"] in starts:
        yield _in_log(store, numbers["fileStart"] + numbers["position"])
    elif address is not None and size == settings.commitlog_file_size:
        yield _in_log(store, address)
    elif address is not None and size == settings.consumequeue_file_size:
        yield _in_queues(store, address)
    elif address is not None:
        yield f"neither the log nor a queue has files of {size} bytes"
    if isinstance(topic, str):
        yield from _in_queue(store, topic, values)


def _in_log(store: Store, offset: int) -> str:
    place = f"log offset {offset}"
    if not len(store.commitlog):
        return f"{place}: there is no commit log"
    extent, record = store.once(LogExtent.of), record_at(store.commitlog, offset)
    if offset < extent.start:
        return f"{place} lies before the log's first byte, {extent.start}"
    if offset > extent.end:
        return f"{place} lies after the log's end, {extent.end}"
    if record is not None:
        queue = f"{record.topic}/{record.head.queue_id}"
        return f"at {place} begins a message of {queue}, queue offset {record.head.queue_offset}"
    if store.commitlog.segment_at(offset) is None and offset < extent.end:
        return f"{place}: the file of the log that held it is missing"
    return f"{place} is the log's end" if offset == extent.end else f"at {place} begins no message"


def _in_queues(store: Store, address: int) -> str:
    """Return which queues end at an address in their files, in bytes, the full ones with their last file."""
    number, ending = address // UNIT_SIZE, []
    for queue in queues_of(store):
        if queue.file_count and queue.bounds(store.commitlog.start).max_offset == number:
            ending.append(f"{queue.topic}/{queue.queue_id}")
        queue.close()
    if not ending:
        return f"no queue ends at queue offset {number} now"
    queues = counted(len(ending), "queue ends", "queues end")
    return f"{queues} at queue offset {number}, where a file is exactly full: {some(ending, _KEPT)}"


def _in_queue(store: Store, topic: str, values: Values) -> Iterator[str]:
    """Yield what a queue, or all of a topic, have now, and where a group is in them."""
    queue_id, group = values.get("queueId"), values.get("group")
    if isinstance(queue_id, int):
        bounds = bounds_of(store, topic, queue_id)
        name = f"{topic}/{queue_id}"
        yield (
            f"there is no queue {name}"
            if bounds is None
            else (f"{name} has queue offsets {bounds.min_offset} to before {bounds.max_offset}")
        )
        expected, end = values.get("expectedBytes"), values.get("queueBytes")
        if isinstance(expected, int) and isinstance(end, int):
            own, end = expected // UNIT_SIZE, end // UNIT_SIZE
            yield f"the message's queue offset was {own}, the queue ended at {end}"
    for consumed in consumed_offsets(store) if group is not None else ():
        if consumed.topic == topic and consumed.reader == f"group {group}":
            place = f"{topic}/{consumed.queue_id}"
            bounds = bounds_of(store, topic, consumed.queue_id)
            ends = "no queue" if bounds is None else f"a queue of {bounds.min_offset} to {bounds.max_offset}"
            yield f"group {group} is at queue offset {consumed.offset} of {place}, {ends}"
