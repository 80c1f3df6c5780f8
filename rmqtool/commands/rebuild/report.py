"""What a rebuild did: the verdict, the JSON report, the exit status, and what to do next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn
from rmqtool.findings.wording import counted

if TYPE_CHECKING:
    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.commands.rebuild.generations import Dropped
    from rmqtool.commands.rebuild.present import Present
    from rmqtool.dispatch.tag_evidence import TagRule
    from rmqtool.findings import FindingLog
    from rmqtool.reput.damage import SkippedRange
    from rmqtool.reput.pipeline import ReputResult
    from rmqtool.reput.unreachable import UnreachableRange

SCHEMA = "rmqtool.rebuild/2"
_INSTALL = (
    "To install: stop the broker and remove abort; move the store's {names} away and put the ones in {out}"
    " in their place; keep commitlog/, config/ and checkpoint. Install both parts of one rebuild and put"
    " nothing else beside them: brokers of 5.0.0 to 5.3.1 do not complete a consume queue that ends before"
    " the log does, 5.3.2 and later lose a record doing so, and 5.4.0 and later look at the newest"
    " commitLogRecoverMaxNum (10) files of the log only: do not delete {names} for a start to make them anew,"
    " as all before those files would get no unit and no index entry. A start that still finds abort deletes"
    " index files that are newer than the checkpoint."
)
_PARTIAL = "This result is partial: a broker must not start on it."
_DAMAGED = (
    "Start no broker on the only copy: a start can cut the log where it is damaged. Compare with a replica"
    " first: rmqtool diff {store} REPLICA. What a start would do: rmqtool verify {store} --predict-recovery"
)
_FEWER = (
    "Do not install this result: consumers would see fewer messages than now. What the log cannot give, a"
    " replica may: rmqtool diff {store} REPLICA"
)
_DOUBTFUL = (
    "Do not install this result before {names} are sure: give the broker's with -c broker.conf or"
    " -p {first}=N, and rebuild again. What is known of them: rmqtool info {store}"
)


@dataclass
class Left:
    """What of the log got into no queue, though it is there.

    Attributes:
        skipped: damaged ranges that were not dispatched.
        unreachable: ranges after the end of the broker's way.
    """

    skipped: list[SkippedRange] = field(default_factory=list)
    unreachable: list[UnreachableRange] = field(default_factory=list)

    @property
    def skipped_records(self) -> int:
        """Return how many true records lie in damaged ranges."""
        return sum(part.records for part in self.skipped)

    @property
    def record_bytes(self) -> int:
        """Return the size of the true records in both."""
        return sum(one.record_bytes for one in self.skipped) + sum(
            one.record_bytes for one in self.unreachable
        )

    @property
    def unreachable_records(self) -> int:
        """Return how many true records lie after the end of the way."""
        return sum(part.records for part in self.unreachable)


@dataclass
class RebuildReport:
    """The outcome of one rebuild.

    Attributes:
        store: path of the evidence.
        out: path of the result; None if none was written.
        engine: ``local`` or ``spark``.
        partial: whether the user left something out.
        settings: ``{NAME: {"value", "origin"}}``.
        result: counts and times.
        bytes_read: bytes of the log up to the last dispatched record.
        findings: what is wrong with the log.
        tags: which messages have an index entry for their tags, and why; None without an index.
        left: what of the log is in no queue.
        present: the queues and the index that are there, held against the result; None for a part of one.
        generations: queues of topics that were created again, without their older messages.
        doubtful: settings that are not sure, and what speaks against them.
        compared: whether the present files were compared.
        differences: first difference of every file that differs.
        mode: ``broker``: what a running master's reput builds.
    """

    store: str
    out: str | None
    engine: str
    partial: bool
    settings: dict[str, Any]
    result: ReputResult
    bytes_read: int
    findings: FindingLog
    tags: TagRule | None
    left: Left = field(default_factory=Left)
    present: Present | None = None
    generations: list[Dropped] = field(default_factory=list)
    doubtful: dict[str, str] = field(default_factory=dict)
    compared: bool = False
    differences: list[FileDifference] = field(default_factory=list)
    mode: str = "broker"

    @property
    def skipped(self) -> list[SkippedRange]:
        """Return the damaged ranges that were not dispatched."""
        return self.left.skipped

    @property
    def seconds(self) -> dict[str, float]:
        """Return the wall time of each stage; can be added to."""
        return self.result.seconds

    @property
    def is_log_damaged(self) -> bool:
        """Whether the commit log itself has errors."""
        return self.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED

    @property
    def fewer_messages(self) -> int:
        """Return how many messages consumers see now and would not see with the result."""
        return 0 if self.present is None else self.present.fewer

    @property
    def fewer_entries(self) -> int:
        """Return how many index entries are lost with the records that are not dispatched.

        An index also has fewer where it is made anew from a sound log: without the doubles of a crash.
        """
        left_out = self.left.skipped_records + self.left.unreachable_records + self.result.unindexed
        if self.present is None or self.present.entries is None or not left_out:
            return 0
        return max(self.present.entries - self.result.entries, 0)

    @property
    def account(self) -> dict[str, int]:
        """Return where the log's true records went: the parts add up to ``records``."""
        parts = {
            "dispatched": self.result.messages,
            "notAskedFor": self.result.records - self.result.messages,
            "skipped": self.left.skipped_records,
            "unreachable": self.left.unreachable_records,
        }
        return {"records": sum(parts.values()), **parts}

    @property
    def verdict(self) -> str:
        """Return the outcome in one sentence, the worst first."""
        damage = "The commit log is damaged: " if self.is_log_damaged else ""
        if fewer := self._fewer():
            return f"{damage}{fewer}"
        doubt = f"Settings in doubt ({', '.join(self.doubtful)}): " if self.doubtful else ""
        part = "A part, as asked: " if self.partial else ""
        plain = "" if damage or doubt or part else "Complete: "
        return f"{damage}{doubt}{part}{plain}{self._made()}"

    def _fewer(self) -> str:
        """Return what consumers or look-ups would miss; empty if nothing."""
        parts = []
        if self.fewer_messages:
            parts.append(f"{counted(self.fewer_messages, 'fewer message', spec=',')} than now")
        if self.fewer_entries:
            text = counted(self.fewer_entries, "fewer index entry", "fewer index entries", spec=",")
            parts.append(f"{text} than now" if not parts else text)
        return ", ".join(parts)

    def _made(self) -> str:
        """Return what was made, beside what is there."""
        messages = counted(self.result.units, "message", spec=",")
        made = f"{messages} in {counted(self.result.queues, 'queue', spec=',')}"
        if not self.result.plans:
            made = counted(self.result.entries, "index entry", "index entries", spec=",")
        if self.present is None or not self.result.plans:
            return made
        if not self.present.queues:
            return f"{made}; no queue is there now"
        more = f"{self.present.more:,} more than now" if self.present.more else "as many as now"
        return f"{made}, {more}"

    @property
    def install_hint(self) -> str:
        """Return what to do next: how to put the result in place, or why not; empty if there is nothing."""
        store = shlex.quote(self.store)
        if self.is_log_damaged:
            return _DAMAGED.format(store=store)
        if self.fewer_messages or self.fewer_entries:
            return _FEWER.format(store=store)
        if self.out is None:
            return ""
        if self.partial:
            return _PARTIAL
        if self.doubtful:
            names = " and ".join(self.doubtful)
            return _DOUBTFUL.format(names=names, first=next(iter(self.doubtful)), store=store)
        names = " and ".join(f"{name}/" for name in sorted(self.result.files) if self.result.files[name])
        return _INSTALL.format(names=names or "derived directories", out=shlex.quote(self.out))

    @property
    def is_installable(self) -> bool:
        """Whether a broker may start on the result, as far as that can be told."""
        fewer = self.fewer_messages or self.fewer_entries
        return not (self.out is None or self.partial or self.doubtful or self.is_log_damaged or fewer)

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 for a damaged log, 1 for files that differ or for less than is there, else 0."""
        status = self.findings.exit_status(FailOn(fail_on))
        less = self.differences or self.fewer_messages or self.fewer_entries
        if status == ExitStatus.CLEAN and less and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status

    def to_json(self) -> dict[str, Any]:
        """Return the report object, schema ``rmqtool.rebuild/2``."""
        return {
            "schema": SCHEMA,
            "store": self.store,
            "verdict": self.verdict,
            "out": self.out,
            "mode": self.mode,
            "engine": self.engine,
            "partial": self.partial,
            "installable": self.is_installable,
            "settings": self.settings,
            "doubtfulSettings": self.doubtful,
            "tagItems": None if self.tags is None else self.tags.to_json(),
            "records": self.result.messages,
            "bytes": self.bytes_read,
            "units": self.result.units,
            "indexEntries": self.result.entries,
            "queues": self.result.queues,
            "files": dict(self.result.files),
            "present": None if self.present is None else self.present.to_json(),
            "account": self.account,
            **self._left_out(),
            "findings": [finding.to_json() for finding in self.findings],
            "counts": self.findings.counts,
            "compared": self.compared,
            "differences": [difference.to_json() for difference in self.differences],
            "seconds": self.seconds,
            "exitStatus": int(self.exit_status()),
        }

    def _left_out(self) -> dict[str, Any]:
        """Return what of the log is not in the result, range by range and queue by queue."""
        left, chain = self.left, self.result.chain
        return {
            "skipped": [_skipped(part) for part in left.skipped],
            "moreSkipped": {"ranges": chain.more_skips, "bytes": chain.more_skipped_bytes},
            "unreachable": [_unreachable(part) for part in left.unreachable],
            "skippedUnits": sum(self.result.skipped_units.values()),
            "skippedUnitsByQueue": [
                {"topic": topic, "queueId": queue_id, "units": count}
                for (topic, queue_id), count in sorted(self.result.skipped_units.items())
            ],
            "olderGenerations": [one.to_json() for one in self.generations],
            "messagesNotIndexed": self.result.unindexed,
            "salvageWouldAdd": {
                "records": left.skipped_records + left.unreachable_records,
                "bytes": left.record_bytes,
            },
        }


def _skipped(part: SkippedRange) -> dict[str, Any]:
    skip = part.skip
    return {
        "physicalOffset": skip.log_offset,
        "length": skip.length,
        "reason": part.reason,
        "records": part.records,
    }


def _unreachable(part: UnreachableRange) -> dict[str, Any]:
    return {
        "file": part.segment.label,
        "physicalOffset": part.start,
        "length": part.length,
        "reason": part.reason,
        "records": part.records,
    }
