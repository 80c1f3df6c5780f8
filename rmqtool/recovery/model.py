"""What a broker will make of a store when it starts: the prediction as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rmqtool.releases import Release

SCHEMA = "rmqtool.prediction/1"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why the broker does not start.

    Attributes:
        file: path relative to the store.
        reason: the end of a sentence that begins with the path.
    """

    file: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"file": self.file, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Recovery:
    """Which recovery runs, and where it begins to read.

    Attributes:
        kind: ``normal`` without ``abort``, else ``abnormal``.
        file: the log's file that it begins with; None for a log without files.
        physical_offset: where it begins: that file's first byte, or a place in it that the broker was told.
        reason: why that file.
    """

    kind: Literal["normal", "abnormal"]
    file: str | None
    physical_offset: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "kind": self.kind,
            "file": self.file,
            "physicalOffset": self.physical_offset,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Cut:
    """Where recovery ends the log.

    Attributes:
        physical_offset: the log's end from then on.
        file: the file it lies in.
        position: bytes from the file's start.
        code: finding code of the damage; None at the log's own end.
        reason: what lies there.
    """

    physical_offset: int
    file: str
    position: int
    code: str | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "physicalOffset": self.physical_offset,
            "file": self.file,
            "position": self.position,
            "code": self.code,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """True records of a topic that lie after the cut.

    Attributes:
        topic: the stored topic.
        messages: how many.
        bytes: their size.
    """

    topic: str
    messages: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"topic": self.topic, "messages": self.messages, "bytes": self.bytes}


@dataclass(slots=True)
class Dispatched:
    """What is dispatched again.

    Attributes:
        start: physical offset of the first record; None if there is none.
        stop: physical offset after the last.
        messages: how many.
        units: consume queue units that are appended.
        entries: index entries that are put.
    """

    start: int | None = None
    stop: int | None = None
    messages: int = 0
    units: int = 0
    entries: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "start": self.start,
            "stop": self.stop,
            "messages": self.messages,
            "units": self.units,
            "indexEntries": self.entries,
        }


@dataclass(frozen=True, slots=True)
class Reput:
    """How the broker catches up after recovery.

    Attributes:
        start: physical offset at which it begins.
        stalled_at: physical offset that it never gets past; None if it gets through.
        dispatched: what it dispatches.
    """

    start: int
    stalled_at: int | None
    dispatched: Dispatched

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "start": self.start,
            "stalledAt": self.stalled_at,
            "dispatched": self.dispatched.to_json(),
        }


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """A queue after the start.

    Attributes:
        topic: its topic.
        queue_id: its number.
        batch: whether it is a batch consume queue.
        found: max offset as the files have it, before recovery of the log.
        minimum: min offset that the broker reports once it has started.
        maximum: max offset likewise; the next message gets it.
        appended: units appended by the start.
        misplaced: those of them that land at another place than their queue offset.
        dropped: records dispatched in vain, because the queue has passed their queue offset.
        missing: records in the log that have no unit and get none.
    """

    topic: str
    queue_id: int
    batch: bool
    found: int
    minimum: int
    maximum: int
    appended: int
    misplaced: int
    dropped: int
    missing: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "topic": self.topic,
            "queueId": self.queue_id,
            "batch": self.batch,
            "foundMaxOffset": self.found,
            "minOffset": self.minimum,
            "maxOffset": self.maximum,
            "appended": self.appended,
            "misplaced": self.misplaced,
            "dropped": self.dropped,
            "missing": self.missing,
        }


@dataclass(frozen=True, slots=True)
class IndexFileOutcome:
    """An index file after the start.

    Attributes:
        file: path relative to the store; None for one that the start creates.
        items: entries in it.
        end_phy_offset: endPhyOffset of its header.
    """

    file: str | None
    items: int
    end_phy_offset: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {"file": self.file, "items": self.items, "endPhyOffset": self.end_phy_offset}


@dataclass
class Prediction:
    """What a broker of one release will do.

    Attributes:
        store: path of the evidence.
        release: whose rules apply.
        refusals: why it does not start; empty if it does.
        recovery: which recovery runs; None when loading is refused before.
        cut: where it ends the log; None for a log without files.
        lost: true records after the cut, by topic.
        deleted: files it deletes, relative to the store.
        recovered: what recovery dispatches.
        reput: what is dispatched after recovery; None if it does not come to that.
        queues: the queues afterwards.
        index: the index files afterwards, in order.
        ignored: entries of the index directory that the broker passes over.
        missing_entries: index entries that the log demands, and that are not there and are not put.
        hazards: whole sentences on what else will go wrong.
    """

    store: str
    release: Release
    refusals: list[Refusal] = field(default_factory=list)
    recovery: Recovery | None = None
    cut: Cut | None = None
    lost: list[Loss] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    recovered: Dispatched = field(default_factory=Dispatched)
    reput: Reput | None = None
    queues: list[QueueOutcome] = field(default_factory=list)
    index: list[IndexFileOutcome] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    missing_entries: int = 0
    hazards: list[str] = field(default_factory=list)

    @property
    def loads(self) -> bool:
        """Whether the store loads."""
        return not self.refusals

    @property
    def starts(self) -> bool:
        """Whether the broker gets through its start; a 4.9 broker waits for its reput."""
        return self.loads and (self.reput is None or self.reput.stalled_at is None)

    def to_json(self) -> dict[str, Any]:
        """Return the prediction object, schema ``rmqtool.prediction/1``."""
        return {
            "schema": SCHEMA,
            "store": self.store,
            "brokerVersion": self.release.name,
            "loads": self.loads,
            "starts": self.starts,
            "refusals": [refusal.to_json() for refusal in self.refusals],
            "recovery": self.recovery.to_json() if self.recovery else None,
            "cut": self.cut.to_json() if self.cut else None,
            "lost": [loss.to_json() for loss in self.lost],
            "deletedFiles": self.deleted,
            "dispatchedByRecovery": self.recovered.to_json(),
            "reput": self.reput.to_json() if self.reput else None,
            "queues": [queue.to_json() for queue in self.queues],
            "index": [file.to_json() for file in self.index],
            "ignoredIndexFiles": self.ignored,
            "missingIndexEntries": self.missing_entries,
            "hazards": self.hazards,
        }
