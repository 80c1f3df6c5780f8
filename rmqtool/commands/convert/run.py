"""The conversion: log, queues, index, checkpoint and settings of the new store."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.commands.convert import ConvertReport, MappedFile
from rmqtool.derived.positions import last_dispatched
from rmqtool.derived.queues import queue_in
from rmqtool.derived.timer import TIMER_LOG, TIMER_WHEEL
from rmqtool.dispatch.index_keys import assumptions, tag_rule
from rmqtool.engine.choice import opened_engine
from rmqtool.errors import EnvironmentFailureError, LogDamagedError, RefusedError, UsageError
from rmqtool.formats.framing import DLEDGER
from rmqtool.progress import stage_of, timed
from rmqtool.projection import json_object
from rmqtool.reput.pipeline import run_reput
from rmqtool.salvage.derived import PARTS, last_index_ms, reput_plan
from rmqtool.salvage.plain_log import (
    Addresses,
    Committed,
    FileTask,
    convert_file,
    copy_timer_log,
    file_queue,
)
from rmqtool.salvage.sidecars import copied, write_checkpoint
from rmqtool.salvage.writing import LOG_DIRECTORY, copy_file, is_link
from rmqtool.store.kinds import CONFIG_DIRECTORY, CONVERT_REPORT, UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.ledger import DATA, progress_of
from rmqtool.store.lock import lock_holder
from rmqtool.store.results import output_area
from rmqtool.store.segments import Segment, StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.commands.convert import ConvertRequest
    from rmqtool.engine import Engine
    from rmqtool.io import Location
    from rmqtool.progress import Progress
    from rmqtool.reput.pipeline import ReputResult
    from rmqtool.salvage.plain_log import ConvertedFile
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle


_COPIED = (CONFIG_DIRECTORY, "compaction", TIMER_WHEEL)
"""Parts that name queue offsets, places in files of their own, and no address in the log."""
_BEYOND = "queues or index lead there, where no entry is: they are damaged, or the log has lost its end"
_DAMAGED = "nothing was made; rmqtool verify {store} shows the damage"


def convert(request: ConvertRequest, out: Path, progress: Progress) -> ConvertReport:
    """Convert into ``out``, which appears complete or not at all; raises as `rmqtool.Store.convert`."""
    store = request.store
    root = _checked(store)
    seconds: dict[str, float] = {}
    with (
        output_area(out, [store], CONVERT_REPORT, elsewhere=False) as area,
        opened_engine(request.engine) as hands,
    ):
        addresses = Addresses.of(store.commitlog)
        with timed(seconds, "log"):
            log = _Log.of(request, addresses, area.handle, hands, progress)
        with timed(seconds, "derived"):
            made = _derived(store, log, area.handle, hands, progress)
        with timed(seconds, "beside"):
            not_copied = dict(_copy_beside(store, root, log, addresses, area.handle))
            queues = {(plan.topic, plan.queue_id) for plan in made.plans}
            kept, left = _keep_queues(store, root, queues, area.handle)
            not_copied |= left
            last = log.taken[-1]
            write_checkpoint(
                area.handle,
                store.settings.release,
                last_ms=last.last_ms,
                index_ms=last_index_ms(area.handle.finished("index")),
                end=last.end,
                last_record=last.last_record,
            )
        report = ConvertReport(
            store=str(store.base),
            out=str(out),
            member=log.member,
            term=max(file.last_term for file in log.files),
            committed=log.committed.entry,
            entries=sum(file.entries for file in log.files),
            uncommitted=sum(file.uncommitted for file in log.files),
            kept_files=len(log.older),
            start=store.commitlog.start,
            end=last.end,
            files=tuple(
                MappedFile(file.file, file.first_entry or 0, file.entries, file.end) for file in log.taken
            ),
            addresses={kind: count for kind, count in log.counts.items() if count},
            messages=made.messages,
            units=made.units,
            index_entries=made.entries,
            queues=made.queues,
            kept_queues=kept,
            assumed=assumptions(
                store, PARTS, tag_rule(store) if store.settings.message_index_enable else None
            ),
            not_copied=not_copied,
            seconds=seconds,
        )
        with area.create_file(CONVERT_REPORT) as file:
            file.write_at(0, (json.dumps(json_object(report), indent=1) + "\n").encode())
        progress.stage("publish", None)
        area.publish()
    return report


def _checked(store: Store) -> Location:
    """Return the store's root, if its log can be converted; links below it are not followed."""
    if store.root is None or store.kind is not PathKind.STORE:
        raise UsageError(f"{store.place.path}: is a part of a store; give its root")
    store.require(Deed.CONVERT)
    if not any(segment.framing == DLEDGER for segment in store.commitlog):
        raise UsageError(
            f"{store.base}: has no log of DLedger (dledger-ID/data/): there is nothing to convert"
        )
    holder = lock_holder(store.root)
    if holder is not None:
        raise RefusedError(f"{store.root}: {holder} holds the store's lock; stop the broker")
    size = store.settings.commitlog_file_size
    for segment in store.commitlog:
        if segment.framing != DLEDGER and is_link(segment):
            raise EnvironmentFailureError(
                f"{segment.path}: is a link, and no link's target is copied; put the file itself there"
            )
        if segment.framing == DLEDGER and segment.size_bytes != size:
            raise LogDamagedError(
                f"{segment.path}: has {segment.size_bytes} bytes, not {size} (if that is wrong, give -p"
                f" mappedFileSizeCommitLog=N); {_DAMAGED.format(store=store.base)}"
            )
    for gap in store.commitlog.gaps(size):
        raise LogDamagedError(
            f"{store.base}: files of the log are missing from {gap.expected} to {gap.found};"
            f" {_DAMAGED.format(store=store.base)}"
        )
    return store.root.without_links()


class _Log(NamedTuple):
    """The new log: files of entries, of which some have entries that were taken, and older files."""

    member: str
    committed: Committed
    files: list[ConvertedFile]
    older: list[Segment]
    counts: Counter[str]

    @classmethod
    def of(
        cls,
        request: ConvertRequest,
        addresses: Addresses,
        staging: StagingHandle,
        engine: Engine,
        progress: Progress,
    ) -> _Log:
        """Write the log."""
        store = request.store
        entries = [segment for segment in store.commitlog if segment.framing == DLEDGER]
        older = [segment for segment in store.commitlog if segment.framing != DLEDGER]
        member = entries[0].path.parent.parent
        places = set(last_dispatched(store))
        known = max((place for place in places if addresses.moved(place) is not None), default=-1)
        beyond = max((place for place in places if place > known), default=-1)
        committed = Committed(progress_of(member).committed, known, beyond)
        bound = None if request.include_uncommitted else committed
        tasks = [FileTask(staging, segment, addresses, bound) for segment in entries]
        sizes = [segment.size_bytes for segment in (*older, *entries)]
        stage = stage_of(progress, "log", sizes)
        engine.map(partial(_copy_older, staging), older, stage)
        files = engine.map(convert_file, tasks, lambda done: stage(len(older) + done))
        made = cls(member.name, committed, files, older, sum((file.addresses for file in files), Counter()))
        made.check(store)
        return made

    @property
    def taken(self) -> list[ConvertedFile]:
        """Return the files with entries that were taken."""
        return [file for file in self.files if file.entries]

    @property
    def end(self) -> int:
        """Return where the last entry ends in the log of entries."""
        return max(file.read_to for file in self.files)

    def check(self, store: Store) -> None:
        """Raise `LogDamagedError` if the entries do not lead up to the committed end."""
        last = max((number for number, file in enumerate(self.files) if file.seen), default=0)
        for file, after in pairwise(self.files[: last + 1]):
            follows = after.first_entry == file.next_entry and file.last_term <= after.last_term
            if not (file.is_full and follows):
                raise _no_entry(store, file)
        end, (entry, dispatched, _) = self.files[last], self.committed
        if (entry is not None and entry >= end.next_entry) or dispatched >= end.read_to:
            raise _no_entry(store, end)
        if not self.taken and end.seen:
            raise UsageError(
                f"{store.base}: no entry in {self.member}/ is known to be committed; --include-uncommitted"
                f" takes all {end.next_entry - (self.files[0].first_entry or 0)}"
            )
        if not self.taken:
            raise UsageError(f"{store.base}: no entry in {self.member}/: there is nothing to convert")


def _no_entry(store: Store, file: ConvertedFile) -> LogDamagedError:
    return LogDamagedError(
        f"{store.base}: the log is damaged at {file.read_to}: entry {file.next_entry} is not there, before"
        f" the committed end; {_DAMAGED.format(store=store.base)}"
    )


def _copy_older(staging: StagingHandle, segment: Segment) -> None:
    copy_file(staging, StoreFile(segment.path, f"{LOG_DIRECTORY}/{segment.path.name}", segment.size_bytes))


def _derived(
    store: Store, log: _Log, staging: StagingHandle, engine: Engine, progress: Progress
) -> ReputResult:
    """Make queues and index of the new log."""
    made = run_reput(reput_plan(file_queue(staging), store, staging, *PARTS), engine, progress)
    end = log.taken[-1].end
    skipped = [skip.log_offset for skip in made.chain.skips if skip.log_offset < end]
    if skipped or made.chain.end != end:
        raise LogDamagedError(
            f"{store.base}: the log is damaged at {min([*skipped, made.chain.end])};"
            f" {_DAMAGED.format(store=store.base)}"
        )
    return made


def _keep_queues(
    store: Store, root: Location, made: set[tuple[str, int]], staging: StagingHandle
) -> tuple[int, dict[str, str]]:
    """Copy the queues all of whose messages lie before the log: their ends are what producers go on from.

    Returns how many, and the files that are not copied, each with the reason.
    """
    kept, left = 0, dict[str, str]()
    for kind in UNIT_QUEUE_KINDS:
        for listed in store.queues(kind):
            queue = queue_in(listed)
            unit = queue.last_unit()
            queue.close()
            is_expired = unit is not None and 0 <= unit.physical_offset < store.commitlog.start
            if is_expired and (listed.topic, listed.queue_id) not in made:
                problems, files = copied(root, [root / file.label for file in listed.files], staging)
                left |= {problem.label: problem.problem or "" for problem in problems}
                kept += bool(files)
    return kept, left


def _copy_beside(
    store: Store, root: Location, log: _Log, addresses: Addresses, staging: StagingHandle
) -> Iterator[tuple[str, str]]:
    """Copy what else a broker keeps; yield labels of what is not copied, and why."""
    places = [*map(root.__truediv__, _COPIED), *root.matching(f"{TIMER_WHEEL}.[0-9]*")]
    for left in copied(root, places, staging)[0]:
        yield left.label, left.problem or ""
    mapped = partial(copy_timer_log, addresses=addresses, counts=log.counts)
    for left in copied(root, [root / TIMER_LOG], staging, mapped)[0]:
        yield left.label, left.problem or ""
    if log.committed.beyond >= log.end:
        yield f"unit at {log.committed.beyond}", _BEYOND
    for made in log.files:
        if made.is_followed and made.seen:
            yield f"{log.member}/{DATA}/{made.file}", "after the last entry are bytes that are none"
    for feature in store.features:
        if feature.label != log.member and not feature.label.startswith((*_COPIED, TIMER_LOG)):
            yield feature.label, feature.code.title
