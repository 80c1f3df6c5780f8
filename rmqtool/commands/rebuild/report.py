"""Report of a rebuild: the options that it depends on, the verdict, the exit status, the next step."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rmqtool.account import LogLosses, before_words, losses_words
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, Findings, counted
from rmqtool.outcomes import Action, best, is_needed, outcome_of, outcome_words
from rmqtool.store.kinds import REBUILD_REPORT
from rmqtool.store.results import fetched, resting_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqtool.account.lost import LostTotals
    from rmqtool.commands.rebuild import ResultOptions
    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.commands.rebuild.judging import Dropped
    from rmqtool.commands.rebuild.present import Present
    from rmqtool.dispatch.index_keys import TagRule
    from rmqtool.outcomes import Outcome
    from rmqtool.reput.damage import SkippedRange, UnreachableRange
    from rmqtool.scan.record_walk import LogExtent
    from rmqtool.store import Setting


_INSTALL = (
    "To install: stop the broker and run\n  rmqtool verify {store}\n  {line}\n"
    "The first compares queues and index with the log, which shows damage that a rebuild cannot see. Do not"
    " delete commitlog/, config/, checkpoint or the .before folder. Install all parts of one rebuild and put"
    " nothing else beside them: brokers of 5.0.0 to 5.3.1 do not complete a consume queue that ends before"
    " the log does, 5.3.2 and later lose a record doing so, and 5.4.0 and later read only the newest"
    " commitLogRecoverMaxNum (10) files of the log. Do not delete {names} and let a start rebuild them:"
    " messages before those files would get no unit and no index entry. A start that finds abort deletes"
    " index files that are newer than the checkpoint."
)
_PARTIAL = "This result is partial: a broker must not start on it."
_WORSE = "Do not install this result: a start on it {harm}. {first}Next:\n  {command}"
_FIRST = "Look for the lost or damaged messages in a replica or a backup first. "
_DAMAGED = (
    "Start no broker on the only copy: a start can cut the log where it is damaged. Compare with a replica"
    " first: rmqtool diff {store} REPLICA. Then take the next step that rmqtool verify {store} names"
)
_FEWER = (
    "Do not install this result: consumers would see fewer messages than now. A replica may have them: "
    "rmqtool diff {store} REPLICA"
)
_DOUBTFUL = (
    "Do not install this result before {names} are sure: pass the broker's own with -c broker.conf or"
    " -p {first}=N, and rebuild again. To see what is known of them: rmqtool info {store}"
)
_HIDES = (
    "Do not install this result yet: the present queues name messages that the log has not, and it "
    "leaves them out. Keep a list of them first: rmqtool rebuild {store} --dry-run --lost FILE, and fetch "
    "them from a replica, if one exists; then rebuild with --lost"
)
_NOT_NEEDED = "Do not install this result: a start on it {harm}; the store as it is needs nothing"
_NOT_COMPARED = (
    "Do not install this result: the present files could not be compared with it ({reason}), so consumers "
    "may see fewer messages than now"
)
_UNSETTLED = (
    "Do not install this result yet: topics seem to have been deleted and created again, and older messages "
    "hide later ones in it. If they were deleted on purpose, rebuild with --generations live; if their queues"
    " were lost, with --generations all"
)
_DATABASES = (
    "Leave {names} where it is, and do not install this result: the broker keeps queues in RocksDB, and would"
    " make its database again of the newest files of the log alone"
)


def _harm(report: RebuildReport, store: str) -> str:
    """Return contradictions of a result even if it is whole; empty without any."""
    if report.outcomes and (worse := _worse(report.outcomes)):
        return worse
    if not report.outcomes and report.is_log_damaged:
        return _DAMAGED.format(store=store)
    if not report.outcomes and (report.fewer_messages or report.fewer_entries):
        return _FEWER.format(store=store)
    return _not_yet(report, store)


def _not_yet(report: RebuildReport, store: str) -> str:
    """Return what comes before an installation; empty without any."""
    if report.hides_losses:
        return _HIDES.format(store=store)
    if report.unsettled_generations:
        return _UNSETTLED
    if report.databases:
        return _DATABASES.format(names=" and ".join(report.databases))
    return _NOT_COMPARED.format(reason=report.uncompared[0]) if report.uncompared else ""


def _worse(outcomes: Sequence[Outcome]) -> str:
    """Return why the result must not be installed, and what is better; empty if nothing is."""
    rebuilt, chosen = outcome_of(outcomes, Action.REBUILD), best(outcomes)
    if rebuilt is None or chosen is None or (rebuilt.harm <= chosen.harm and rebuilt.starts):
        return ""
    lost_anyway = min(outcome.lost for outcome in outcomes if outcome.refused is None)
    harm = outcome_words(replace(rebuilt, lost=rebuilt.lost - lost_anyway))
    if not is_needed(outcomes):
        return _NOT_NEEDED.format(harm=harm)
    return _WORSE.format(harm=harm, first=_FIRST if rebuilt.lost else "", command=chosen.command)


def install_hint(report: RebuildReport) -> str:
    """Return what to do next: how to put a result in place, or why not; empty if there is nothing."""
    store = shlex.quote(report.store)
    if harm := _harm(report, store):
        return harm
    if report.out is None:
        return ""
    if report.partial:
        return _PARTIAL
    if report.doubtful_settings:
        names = " and ".join(report.doubtful_settings)
        return _DOUBTFUL.format(names=names, first=next(iter(report.doubtful_settings)), store=store)
    made = [name for name in sorted(report.files) if report.files[name]]
    names = " and ".join(f"{name}/" for name in made) or "derived directories"
    hint, out = fetched(report.out)
    made += [REBUILD_REPORT] if report.assumed else []
    line = _line(report.store, out, made)
    return hint + resting_on(report.assumed) + _INSTALL.format(names=names, store=store, line=line)


def _line(path: str, out: str, made: list[str]) -> str:
    """Return the shell line that installs a result; each step waits for the one before."""
    store = shlex.quote(path)
    old = " -o ".join(f"-name {name}" for name in dict.fromkeys((*made, "abort", REBUILD_REPORT)))
    new = " ".join(f"{out}/{name}" for name in made)
    away = f"find {store}/ -maxdepth 1 '(' {old} ')' -exec mv -t {store}.before {{}} +"
    return f"mkdir {store}.before && {away} && cp -a {new} {store}/"


@dataclass(frozen=True, slots=True)
class RangeCount:
    """Damaged ranges that are only counted.

    Attributes:
        ranges: how many.
        bytes: their size.
    """

    ranges: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordCount:
    """Records of the log.

    Attributes:
        records: how many.
        bytes: their size.
    """

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SkippedUnits:
    """Units of one queue.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        units: how many.
    """

    topic: str
    queue_id: int
    units: int


@dataclass(frozen=True, slots=True)
class Account:
    """Counts of the log's intact records by outcome; the parts add up.

    Attributes:
        records: all of them.
        dispatched: those that got units and index entries, where they need them.
        not_asked_for: those that the user, or a switch of the broker, leaves out.
        skipped: those in damaged ranges, below damaged frames, and in files under another's name.
        unreachable: those after the end of the broker's way.
    """

    records: int
    dispatched: int
    not_asked_for: int
    skipped: int
    unreachable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """The outcome of one rebuild.

    Attributes:
        store: path of the evidence.
        log: what there was of its log.
        out: path of the result; None if none was written.
        mode: ``broker``: what a running master's reput builds.
        engine: ``local`` or ``spark``.
        partial: whether the user left something out.
        asked: the requested messages and structures.
        settings: in effect, by name.
        doubtful_settings: those that are not sure, and their contradictions.
        assumed: those that no file shows, and what rests on them.
        tag_items: which messages have an index entry for their tags, and why; None without an index.
        records: records dispatched.
        bytes: bytes of the log up to the last dispatched record.
        units: units written, pre-blank ones not counted.
        index_entries: index entries written.
        queues: queues written.
        files: files written, by directory.
        present: the present queues and index, compared with the result; None for a part of one.
        account: counts of the log's intact records by outcome.
        skipped: damaged ranges that were not dispatched.
        more_skipped: those of them that were only counted.
        unreachable: ranges after the end of the broker's way.
        skipped_units_by_queue: units that the append rule skipped.
        older_generations: queues of topics that were created again, without their older messages.
        unsettled_generations: sentences about queues of which nothing shows which messages live.
        unindexed: dispatched messages that an index skips, as they lie before its first item.
        salvage_would_add: intact records in ranges that were not dispatched.
        lost_messages: messages that the result lacks, added up; None unless requested one by one.
        log_losses: messages that the log has lost: no record of it has them.
        findings: about the log.
        not_looked_at: parts of the log that only verify checks.
        outcomes: of the result and of other actions, where the log is damaged or queues prove more.
        compared: whether the present files were compared.
        differences: first difference of every file that differs.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.rebuild/2"
    store: str
    log: LogExtent
    out: str | None
    mode: str
    engine: str
    partial: bool
    asked: ResultOptions
    settings: Mapping[str, Setting]
    doubtful_settings: Mapping[str, str]
    assumed: Mapping[str, str]
    tag_items: TagRule | None
    records: int
    bytes: int
    units: int
    index_entries: int
    queues: int
    files: Mapping[str, int]
    present: Present | None
    account: Account
    skipped: tuple[SkippedRange, ...]
    more_skipped: RangeCount
    unreachable: tuple[UnreachableRange, ...]
    skipped_units_by_queue: tuple[SkippedUnits, ...]
    older_generations: tuple[Dropped, ...]
    unsettled_generations: tuple[str, ...]
    unindexed: int
    salvage_would_add: RecordCount
    lost_messages: LostTotals | None
    log_losses: LogLosses
    findings: Findings
    not_looked_at: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = ()
    compared: bool = False
    differences: tuple[FileDifference, ...] = ()
    seconds: Mapping[str, float]

    @property
    def skipped_units(self) -> int:
        """Return how many units the append rule skipped."""
        return sum(skipped.units for skipped in self.skipped_units_by_queue)

    @property
    def is_log_damaged(self) -> bool:
        """Whether the commit log itself has errors."""
        return self.findings.exit_status(FailOn.ERROR) is ExitStatus.LOG_DAMAGED

    @property
    def fewer_messages(self) -> int:
        """Return how many messages consumers see now and would not see with the result."""
        return 0 if self.present is None else self.present.fewer_messages

    @property
    def hidden_records(self) -> int:
        """Return how many intact records lie in ranges that were not dispatched."""
        return self.salvage_would_add.records

    @property
    def uncompared(self) -> tuple[str, ...]:
        """Return what of the queues and the index that are there could not be compared, and why."""
        return () if self.present is None else self.present.unread

    @property
    def databases(self) -> tuple[str, ...]:
        """Return where the broker keeps queues in a form that is not rebuilt."""
        return () if self.present is None else self.present.databases

    @property
    def fewer_entries(self) -> int:
        """Return how many index entries are lost with the records that are not dispatched.

        An index also has fewer where it is rebuilt from a sound log: without the doubles of a crash.
        """
        left_out = self.account.skipped + self.account.unreachable + self.unindexed
        if self.present is None or self.present.index_entries is None or not left_out:
            return 0
        return max(self.present.index_entries - self.index_entries, 0)

    @property
    def verdict(self) -> str:
        """Return the outcome in one sentence, the worst first."""
        damage = "The commit log is damaged: " if self.is_log_damaged else ""
        if fewer := self._fewer():
            return f"{damage}{fewer}{self._lost()}"
        if self.uncompared:
            return f"{damage}No verdict, some present files could not be read: {self._made()}"
        doubt = f"Settings in doubt ({', '.join(self.doubtful_settings)}): " if self.doubtful_settings else ""
        limit = "as requested" if self.asked.is_partial else "up to the confirm offset"
        part = f"A part, {limit}: " if self.partial else ""
        lost = self._lost()
        assumed = f"; assumed: {', '.join(self.assumed)}" if self.assumed else ""
        plain = "" if damage or doubt or part or assumed or self.log_losses.messages else "Complete: "
        return f"{damage}{doubt}{part}{plain}{self._made()}{lost}{assumed}"

    def _lost(self) -> str:
        """Return the losses of the log itself; empty without any."""
        said = losses_words(self.log_losses)
        return (f"; {said}" if said else "") + before_words(self.log_losses)

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
        """Return the counts of the rebuilt files, beside those of the present ones."""
        if not self.queues:
            return counted(self.index_entries, "index entry", "index entries", spec=",")
        made = f"{counted(self.units, 'message', spec=',')} in {counted(self.queues, 'queue', spec=',')}"
        if self.present is None or self.uncompared:
            return made
        if not self.present.queues:
            return f"{made}; no queue exists now"
        more = self.present.more_messages
        return f"{made}, {f'{more:,} more than now' if more else 'as many as now'}"

    @property
    def install_hint(self) -> str:
        """Return what to do next: how to put the result in place, or why not; empty if there is nothing."""
        return install_hint(self)

    @property
    def hides_losses(self) -> bool:
        """Whether the present queues name messages that the log has not, and nothing keeps that proof."""
        return bool(self.log_losses.messages) and self.lost_messages is None

    @property
    def is_installable(self) -> bool:
        """Whether a broker may start on the result, as far as is known."""
        harm = _harm(self, self.store)
        return not (self.out is None or self.partial or self.doubtful_settings or harm)

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 for a damaged log, 3 where present files were not read, 1 for other or less than that."""
        status = self.findings.exit_status(FailOn(fail_on))
        if self.uncompared and status is not ExitStatus.LOG_DAMAGED:
            return ExitStatus.FAILED
        less = self.differences or self.fewer_messages or self.fewer_entries
        if status == ExitStatus.CLEAN and less and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status
