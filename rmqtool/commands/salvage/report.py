"""What a salvage gave back, and what it could not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.wording import counted
from rmqtool.salvage.causes import Holes
from rmqtool.salvage.model import PartKind
from rmqtool.store.results import fetched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.salvage.accounts import QueueAccount
    from rmqtool.salvage.companions import ConfigFile
    from rmqtool.salvage.model import SalvagePlan

_SHIFTED = " Queue offsets after lost messages are others than before: reset what consumers have read."
_PARTIAL = " A part, as requested: consumers find less than before."


@dataclass(frozen=True, slots=True)
class LogBytes:
    """What the bytes of the new log are; their sum is the log.

    Attributes:
        records: true ones.
        tombstones: messages in the place of lost ones.
        fillers: records that no queue takes.
        blank: up to the end of a file.
        zeros: after the last record.
        log: all.
    """

    records: int
    tombstones: int
    fillers: int
    blank: int
    zeros: int
    log: int


@dataclass(frozen=True, slots=True)
class LostMessages:
    """How many messages are lost, and how many are there and not given back.

    Attributes:
        proven: all that are known to be lost, by gaps in queue offsets, by queues, index items or consumer
            offsets; a message that stood in light queues, too, counts once.
        indexed: of them, those to which index items alone lead: nothing names their queues.
        damaged: those whose records are there, damaged or contradicted, and not given back.
        placed: of both, those with a tombstone or a repeated unit in their place.
        by_cause: how many of both by cause, see ``Lost``.
        open: damaged records of which nothing tells whose messages they were: they may be among the proven.
    """

    proven: int
    indexed: int
    damaged: int
    placed: int
    by_cause: Mapping[str, int]
    open: int


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The outcome of a salvage.

    Attributes:
        stores: paths of the copies.
        out: path of the result; None where only a plan was made.
        holes: what takes the place of lost messages.
        partial: whether the user left something out.
        records: true records given back.
        healed: of them, those that the first copy does not have.
        bytes: of the new log.
        lost: messages.
        misnamed: files of the log that were read as others, which their records name.
        left_out: true records that are not given back, by cause: ``body`` their checksum fails,
            ``properties`` these are torn, or ``__CRC32#`` fails though the body holds, ``stale`` old bytes,
            ``fields`` contradicted, ``room`` too little room beside them, ``conflict`` of another copy.
        conflicts: of records put aside for those of another copy, how many by what decided: ``units`` more
            copies' queues list the other, ``text`` its properties are no text, or have names that no record
            has, ``neighbours`` the other continues the queue offsets and store times, ``nothing`` the
            other is of an earlier copy.
        odd_times: records given back whose store time is out of order.
        queues: the account of each queue.
        units: units written.
        index_entries: index entries written.
        config: the broker's files, and why some are not copied.
        notes: sentences.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.salvage/1"
    stores: tuple[str, ...]
    out: str | None
    holes: Holes
    partial: bool
    records: int
    healed: int
    bytes: LogBytes
    lost: LostMessages
    misnamed: int
    left_out: Mapping[str, int]
    conflicts: Mapping[str, int]
    odd_times: int
    queues: tuple[QueueAccount, ...]
    units: int | None
    index_entries: int | None
    config: tuple[ConfigFile, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]

    @classmethod
    def of(
        cls,
        plan: SalvagePlan,
        *,
        out: str | None = None,
        units: int | None = None,
        index_entries: int | None = None,
        config: tuple[ConfigFile, ...] = (),
        seconds: Mapping[str, float] | None = None,
    ) -> SalvageReport:
        """Return the report of a plan, carried out or not."""
        causes = Counter[str]()
        lost = [one for one in plan.lost if not one.in_light]
        for one in lost:
            causes[one.cause] += one.count
        kinds = {kind: plan.bytes_of(kind) for kind in PartKind}
        return cls(
            stores=plan.stores,
            out=out,
            holes=plan.holes,
            partial=plan.partial,
            records=plan.records_of(PartKind.RECORDS),
            healed=plan.healed,
            bytes=LogBytes(
                kinds[PartKind.RECORDS],
                kinds[PartKind.TOMBSTONES],
                kinds[PartKind.FILLER],
                kinds[PartKind.BLANK],
                kinds[PartKind.ZEROS],
                plan.stop - plan.start,
            ),
            lost=LostMessages(
                sum(one.count for one in lost if not one.is_there) + len(plan.indexed),
                len(plan.indexed),
                sum(one.count for one in lost if one.is_there),
                sum(one.count for one in lost if one.placed),
                dict(causes),
                sum(one.is_open for one in plan.found),
            ),
            misnamed=plan.misnamed,
            left_out=dict(Counter(one.cause for one in plan.found if one.cause != "torn")),
            conflicts=dict(Counter(one.chosen_by.value for one in plan.found if one.chosen_by is not None)),
            odd_times=plan.odd_times,
            queues=plan.queues,
            units=units,
            index_entries=index_entries,
            config=config,
            notes=plan.notes,
            seconds=dict(seconds or {}),
        )

    @property
    def is_whole(self) -> bool:
        """Whether the log had no damage: nothing is lost, left out or misnamed, no hole was filled."""
        wrong = self.lost.proven, self.lost.damaged, self.left_out, self.misnamed, self.moving
        return not any((*wrong, self.bytes.tombstones, self.bytes.fillers))

    @property
    def moving(self) -> tuple[QueueAccount, ...]:
        """Return the queues that skip queue offsets though nothing proves a message to be lost there."""
        return tuple(one for one in self.queues if one.moves)

    @property
    def verdict(self) -> str:
        """Return the outcome in one or two sentences."""
        records, known = counted(self.records, "record", spec=","), self.lost.proven + self.lost.damaged
        missing = known - self.lost.placed
        if self.is_whole:
            told = f"Nothing was lost: {records}."
        elif not known:
            told = f"{records} recovered; no message is proven to be lost."
        else:
            told = f"{records} recovered, {counted(self.lost.proven, 'message', spec=',')} lost"
            told += f", {self.lost.damaged:,} present but damaged" if self.lost.damaged else ""
            told += f", {missing:,} of them with nothing in their place." if missing else "."
        if self.lost.open:
            told += f" {counted(self.lost.open, 'damaged record', spec=',')} of an unknown queue."
        if missing and self.holes is not Holes.CUT:
            told += _SHIFTED
        if self.moving:
            told += (
                f" In {counted(len(self.moving), 'queue', spec=',')} messages move to lower queue offsets."
            )
        return told + (_PARTIAL if self.partial else "")

    @property
    def hint(self) -> str:
        """Return what to do next; empty where nothing was made."""
        if self.out is None:
            return ""
        hint, place = fetched(self.out)
        return (
            f"{hint}To use it:\n  rmqtool verify {place}\nThen start a broker with the old settings on a "
            "copy of it (storePathRootDir), and read salvage/lost.ndjson for the messages that consumers "
            "will miss."
        )

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 if the log was damaged, else 0."""
        if self.is_whole or FailOn(fail_on) is FailOn.NEVER:
            return ExitStatus.CLEAN
        return ExitStatus.LOG_DAMAGED
