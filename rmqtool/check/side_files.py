"""Checks of the checkpoint, of consumer offsets, and of the broker's settings in ``config/``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from rmqtool.derived.positions import DELAY_FILE, TIMER, Consumed, consumed_offsets, loaded_checkpoint
from rmqtool.doctor import ONLY_SHOWN, ConfigCopy
from rmqtool.doctor.choices import BrokerTakes, ConfigChoice, ConfigDiagnosis, QueueEnds
from rmqtool.doctor.diagnose import diagnose, diagnose_timer
from rmqtool.errors import DeniedError
from rmqtool.findings import Finding, Severity, codes, counted
from rmqtool.formats.checkpoint import CHECKPOINT
from rmqtool.formats.fields import offsets
from rmqtool.store import PathKind, Store
from rmqtool.store.segments import denied_finding, label_of
from rmqtool.times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.derived.queues import Bounds


_FIELDS = offsets(CHECKPOINT)
_OF_THE_LOG = ("physicMsgTimestamp", "logicsMsgTimestamp")
_TIMES = (*_OF_THE_LOG, "indexMsgTimestamp")


def check_checkpoint(store: Store, latest_ms: int) -> list[Finding]:
    """Return the times of the checkpoint that are later than ``latest_ms``, the log's highest STORETIMESTAMP.

    They are store times of records, so the log has lost its end, or the checkpoint is another store's
    (``StoreCheckpoint``, ``CommitLog#recoverAbnormally``, 4.9.8 and 5.3.3).
    """
    file = store.checkpoint
    if file is None:
        return []
    try:
        times = dict(zip(_FIELDS, loaded_checkpoint(file), strict=True))
    except DeniedError:
        return []  # IO-DENIED of level 0 says so
    return list(_ahead(file.label, {name: times[name] for name in _TIMES}, latest_ms))


def is_log_cut(findings: list[Finding]) -> bool:
    """Whether the log itself was longer once: the times of both its ends in the checkpoint are ahead."""
    return {finding.position for finding in findings} >= {_FIELDS[name] for name in _OF_THE_LOG}


def _ahead(label: str, times_ms: dict[str, int], latest_ms: int) -> Iterator[Finding]:
    for name, time_ms in times_ms.items():
        if time_ms > latest_ms:
            ahead = f"{time_ms - latest_ms} ms after the log's last record"
            yield Finding(
                code=codes.CP_AHEAD,
                file=label,
                position=_FIELDS[name],
                length=8,
                expected=latest_ms,
                observed=time_ms,
                message=f"{name} is {utc_text(time_ms)}, {ahead}",
            )


def check_epochs(store: Store, log_end: int) -> Iterator[Finding]:
    """Yield the finding of an epoch file that is none of this log, or that a start does not load."""
    try:
        read = store.read_epochs
    except DeniedError:
        return  # IO-DENIED says so
    own, is_controlled = store.epoch_file, store.settings.is_controlled
    if own is None or is_controlled is False or not (read or (is_controlled and log_end)):
        return
    file, loaded = read[-1] if read else (own, {})
    places = sorted((loaded or {}).items())
    unordered = [later for earlier, later in pairwise(places) if later[1] <= earlier[1]]
    beyond = [place for place in places if place[1] > log_end]
    failed = "it cannot be loaded" if own.is_there() else "it is missing"
    kind = "" if file.is_regular() else f"it is {file.kind()}"
    text = None
    if loaded is None:
        text = kind or "a number in it is missing, or is none (NumberFormatException)"
    elif not read:
        text = f"{failed}, and its .bak, too: lost, if the store was in controller mode before"
    elif not loaded:
        wrong = kind or "its number of epochs or its checksum is wrong"
        text = f"{failed}, and no .bak is loaded: {wrong}"
    elif unordered:
        text = f"epoch {unordered[0][0]} begins at {unordered[0][1]}, not after the epoch before it"
    elif beyond:
        text = f"epoch {beyond[0][0]} begins at {beyond[0][1]}, after the log's end, {log_end}"
    elif file != own:
        text = f"{failed}, and a start takes its .bak, which ends with epoch {places[-1][0]}"
    if text is not None:
        yield Finding(
            code=codes.ST_EPOCHS,
            file=label_of(file if loaded is None else own, store.base),
            message=text,
            severity_override=Severity.ERROR if loaded is None else None,
            effect_override=_NO_START if loaded is None else None,
        )


_NO_START = "Does not start in controller mode, and does not try the .bak."
_TIMER_CONTINUES = "Goes on by the timer log and its queue, and loses nothing."
_DELAY_EFFECT = "Goes on at the queue's end; before 4.9.2 it delivers nothing more of the level."
_DELAY_REMEDY = (
    "What OF-PASSED says, if it names messages of the level. Else none from 4.9.2 (PR 3358) on; before, stop "
    "the broker, and set the level's number in delayOffset.json, and in its .bak, to the queue's end."
)


def check_offsets(store: Store, *, timed: bool = True) -> Iterator[Finding]:
    """Yield the offsets in ``config/`` that are outside of their queues.

    Offsets of queues without a directory are skipped: they outlive a deleted topic. So is the timer's if
    the log may have messages for its queue (``timed``). Files that cannot be decoded are level 0's.

    Java: ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, ``ScheduleMessageService`` (4.9.8, 5.3.3).
    """
    ends = QueueEnds(store)
    for consumed in consumed_offsets(store):
        bounds = ends.bounds(consumed.topic, consumed.queue_id)
        if consumed.reader == TIMER:
            yield from _ahead_of_timer_queue(store, consumed, bounds, timed=timed)
        elif bounds is not None:
            yield from _offset_finding(consumed, bounds)


def _ahead_of_timer_queue(
    store: Store, consumed: Consumed, bounds: Bounds | None, *, timed: bool
) -> Iterator[Finding]:
    """Yield the finding of a timer outside of its queue: what a start makes of it is up to the timer log."""
    if bounds is None and timed:
        return
    from rmqtool.recovery.loading import timer_ahead  # few stores have a timer

    low, end = (0, None) if bounds is None else bounds
    text = timer_ahead(store, low, end)
    if text is not None:
        yield Finding(
            code=codes.OF_TIMER,
            file=consumed.file,
            topic=consumed.topic,
            queue_id=consumed.queue_id,
            queue_offset=consumed.offset,
            expected=end or 0,
            observed=consumed.offset,
            message=text,
        )
    elif bounds is not None:
        continues = partial(replace, effect_override=_TIMER_CONTINUES, remedy_override="None needed.")
        for finding in _offset_finding(consumed, bounds):
            yield continues(finding) if finding.code is codes.OF_AHEAD else finding


def _offset_finding(consumed: Consumed, bounds: Bounds) -> Iterator[Finding]:
    if bounds.min_offset <= consumed.offset <= bounds.max_offset:
        return
    is_ahead = consumed.offset > bounds.max_offset
    limit = bounds.max_offset if is_ahead else bounds.min_offset
    where = "beyond the queue's end" if is_ahead else "below the queue's start"
    queue = f"{consumed.topic}/{consumed.queue_id}"
    is_of_level = is_ahead and consumed.file == DELAY_FILE
    yield Finding(
        code=codes.OF_AHEAD if is_ahead else codes.OF_BEHIND,
        file=consumed.file,
        topic=consumed.topic,
        queue_id=consumed.queue_id,
        queue_offset=consumed.offset,
        expected=limit,
        observed=consumed.offset,
        effect_override=_DELAY_EFFECT if is_of_level else None,
        remedy_override=_DELAY_REMEDY if is_of_level else None,
        message=f"{consumed.reader} has offset {consumed.offset} in {queue}, {where}, {limit}",
    )


_CODES = {
    BrokerTakes.BACKUP: codes.CF_BACKUP,
    BrokerTakes.NOTHING: codes.CF_FORGETS,
    BrokerTakes.REFUSES: codes.CF_REFUSED,
}
_GROUP_OFFSETS = "config/consumerOffset.json"


def config_findings(store: Store) -> Iterator[Finding]:
    """Yield the findings of ``config/`` of a store root; none for a part of a store."""
    if store.kind is not PathKind.STORE:
        return
    for diagnosis in diagnose(store):
        for copy in diagnosis.denied:
            yield Finding(code=codes.IO_DENIED, file=copy.file, message=copy.reason)
        if not diagnosis.is_sound and not diagnosis.denied:
            yield _config_finding(diagnosis)
    yield from _timer_finding(store)


def _timer_finding(store: Store) -> Iterator[Finding]:
    try:
        timer = diagnose_timer(store)
    except DeniedError as failure:
        yield denied_finding(failure, store.base)
        return
    if timer is not None:
        again = counted(timer.again_at_most, "timed message", spec=",")
        text = f"{timer.file} is {timer.state}: the timer reads up to {again} again, and delivers those due"
        yield Finding(code=codes.CF_TIMER, file=timer.file, observed=timer.state, message=text)


def _config_finding(diagnosis: ConfigDiagnosis) -> Finding:
    file = next((copy for copy in diagnosis.copies if copy.file == diagnosis.file), None)
    return Finding(
        code=_CODES[diagnosis.broker],
        file=diagnosis.file,
        length=None if file is None else file.size_bytes,
        expected="sound",
        observed=_observed(file),
        message=f"{_copies(diagnosis)}; {_broker(diagnosis)}{_next_step(diagnosis)}",
        severity_override=Severity.WARNING
        if diagnosis.file in ONLY_SHOWN or _may_be_new(diagnosis)
        else None,
    )


def _may_be_new(diagnosis: ConfigDiagnosis) -> bool:
    """Whether nothing is damaged: groups are known, but perhaps none of them has ever read."""
    return diagnosis.file == _GROUP_OFFSETS and all(copy.is_sound for copy in diagnosis.copies)


def _observed(copy: ConfigCopy | None) -> str:
    if copy is None:
        return "missing"
    return "no entries" if copy.lists_nothing else str(copy.state)


def _copies(diagnosis: ConfigDiagnosis) -> str:
    said = list(map(str, diagnosis.copies))
    if not diagnosis.copies or diagnosis.copies[0].file != diagnosis.file:
        said = [f"{diagnosis.file} is missing", *said]
    return ", ".join(said)


def _broker(diagnosis: ConfigDiagnosis) -> str:
    if diagnosis.broker is BrokerTakes.REFUSES:
        return "a broker does not start on that"
    if diagnosis.broker is BrokerTakes.BACKUP:
        return "a broker takes the .bak"
    return f"a broker starts and forgets {diagnosis.loses}"


def _next_step(diagnosis: ConfigDiagnosis) -> str:
    if not diagnosis.choices:
        return "; nothing of it can be recovered"
    best = diagnosis.choices[0]
    return f"; {'best' if diagnosis.obvious else 'first to choose from'}: {best.name}, {_meaning(best)}"


def _meaning(choice: ConfigChoice) -> str:
    said = choice.consequences()
    if choice.missing:
        said.append(f"without {counted(len(choice.missing), 'known entry', 'known entries', spec=',')}")
    return ", ".join(said)
