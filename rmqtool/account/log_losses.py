"""Account of what a log has lost, message by message, for every command that counts losses."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rmqtool.account import NO_LOSSES, LogLosses, MessageStates, QueueLosses, cut_finding, is_borne_out
from rmqtool.account.lost import Absent, AbsentFinder, Kept, Pin
from rmqtool.account.proofs import Hole, consumed_beyond, consumed_ends, indexed_places, unaccounted
from rmqtool.account.survey import SurveyedLog, survey, survey_of, unreached_finding
from rmqtool.derived.queues import LiveUnits, Queue, all_units, queue_units, queues_of
from rmqtool.errors import EnvironmentFailureError
from rmqtool.findings import Finding, codes
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.genuine.beyond import UnitsBeyond, able_to_prove, covered
from rmqtool.kernels.continuity import RUN_ROW
from rmqtool.scan.records import holds_bytes, record_at
from rmqtool.store.kinds import UNIT_QUEUE_KINDS, PathKind
from rmqtool.store.layouts import Deed
from rmqtool.store.segments import ENDLESS
from rmqtool.topics import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.arrays import Bools, Int64s, Rows
    from rmqtool.engine import Engine
    from rmqtool.findings import FindingLog
    from rmqtool.genuine.reading import Reading
    from rmqtool.store import Store
    from rmqtool.store.segments import FileQueue


_NO_RUNS, _NOWHERE = np.empty(0, RUN_ROW), np.empty(0, np.int64)
_KEPT = 128  # units of a queue that are kept: most are short, and there can be tens of thousands
_NO_UNITS = LiveUnits(*[_NOWHERE] * len(LiveUnits._fields))
QueueKey = tuple[str, int]


class LogAccount:
    """Losses of a log, as the queues beside it, its index and its consumers' offsets prove them.

    ``unread`` has sentences about queues and index files that cannot be read, and so prove nothing.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._queues: dict[QueueKey, Queue] = {}
        self._places: dict[QueueKey, Int64s] = {}  # to which the units of a queue lead
        self._short: dict[QueueKey, LiveUnits] = {}
        self._indexed: Int64s | None = None
        self.unread: list[str] = []
        self._beyond = UnitsBeyond(store)
        for queue, units in queue_units(store, self.unread):
            key = queue.topic or "", queue.queue_id or 0
            self._queues[key], self._places[key] = queue, np.sort(units.physical_offsets)
            if len(units.keys) <= _KEPT:
                self._short[key] = units
            self._beyond.add(key, units)

    def units(self, key: QueueKey) -> LiveUnits:
        """Return the units of a queue; none of one that is not there, or cannot be read."""
        if key in self._short or key not in self._queues:
            return self._short.get(key, _NO_UNITS)
        return all_units(self._queues[key])

    def lists(self, key: QueueKey, physical_offsets: Int64s) -> Bools:
        """Return to which records, ``(n,)``, a unit of a queue leads."""
        places = self._places.get(key, _NOWHERE)
        if not len(places):
            return np.zeros(len(physical_offsets), np.bool_)
        number = np.searchsorted(places, physical_offsets)
        return np.asarray(places[np.minimum(number, len(places) - 1)] == physical_offsets)

    def lists_more(self, surveyed: SurveyedLog) -> bool:
        """Return whether units of a queue lead to more places of a log than it has records of that queue."""
        for key, places in self._places.items():
            if not key[0].startswith(LMQ_PREFIX):
                first, last = np.searchsorted(places, [surveyed.start, surveyed.end])
                runs = surveyed.runs.get(key, _NO_RUNS)
                if last - first > (runs["stop"] - runs["first"]).sum():
                    return True
        return False

    def losses(self, surveyed: SurveyedLog) -> Iterator[tuple[QueueKey, list[Absent], QueueLosses]]:
        """Yield, of each queue with lost messages, which they are, by topic and queue id."""
        finder = AbsentFinder(surveyed.start, surveyed.start == 0, ENDLESS, surveyed.room)
        reach = self._reach(surveyed)
        consumed = consumed_ends(self.store) if reach > surveyed.end else {}
        damaged = set(surveyed.unplaced[:, 0].tolist())  # there, and they say otherwise of their queues
        for key in sorted({*self._places, *surveyed.runs}):
            if self.is_light(key, surveyed) or self._is_anothers(key, surveyed):
                continue
            runs, pins = surveyed.runs.get(key, _NO_RUNS), self._pins(key, surveyed)
            absent: list[Absent] = []
            if pins or len(runs) != 1 or (surveyed.start == 0 and runs["first"][0] > 0):
                for part in _generations(runs, pins):
                    absent += finder.find(*part[:2], goes_on=part[2])
            if key in consumed and not self._is_whole(key, surveyed):
                ends = [*runs["stop"].tolist(), *(gone.queue_offset + gone.messages for gone in absent)]
                absent += consumed_beyond(max(ends, default=0), consumed[key], surveyed.end, reach)
            absent = [gone for gone in absent if gone.log_offset not in damaged]
            if absent:
                yield key, absent, _of_queue(key, absent, runs)

    def is_light(self, key: QueueKey, surveyed: SurveyedLog) -> bool:
        """Return whether a queue lists only records of other queues, which name it and count there."""
        if key[0].startswith(LMQ_PREFIX):
            return True
        places = _NOWHERE if key in surveyed.runs else self._places.get(key, _NOWHERE)
        there = places[~surveyed.without_record(places)]
        record = record_at(surveyed.log, int(there[0])) if len(there) else None
        return record is not None and key in [place[:2] for place in record.light_places]

    def _is_anothers(self, key: QueueKey, surveyed: SurveyedLog) -> bool:
        """Return whether all records of a queue are those to which units of others lead: they are damaged."""
        if key in self._places or key not in surveyed.runs:
            return False
        return bool(np.isin(surveyed.runs[key]["place"], self._own_places).all())

    @cached_property
    def _own_places(self) -> Int64s:
        """Return where units of queues lead to, but for light ones, ``(n,)``."""
        own = [places for key, places in self._places.items() if not key[0].startswith(LMQ_PREFIX)]
        return np.concatenate([_NOWHERE, *own])

    def indexed(self, surveyed: SurveyedLog) -> Int64s:
        """Return where index items lead to and the log has no record, ``(n,)`` ascending."""
        if self._indexed is None:
            places = indexed_places(self.store, surveyed.holds_none, surveyed.room, self.unread, surveyed.log)
            # Items made of records that lie about their place prove nothing.
            self._indexed = places[~np.isin(places, surveyed.claims)]
        return self._indexed

    def _reach(self, surveyed: SurveyedLog) -> int:
        """Return up to where in the log units and items lead, each to a smallest record."""
        beyond = [key for key, places in self._places.items() if len(places) and places[-1] >= surveyed.end]
        places = [int(self._proven(key, surveyed).physical_offsets.max(initial=-1)) for key in beyond]
        places += self.indexed(surveyed)[-1:].tolist()
        return max([*places, surveyed.end - SMALLEST_RECORD]) + SMALLEST_RECORD

    def _is_whole(self, key: QueueKey, surveyed: SurveyedLog) -> bool:
        """Return whether a queue lists its last record in the log: no consumer has read more than that."""
        if key not in self._queues:
            return False
        units = self._proven(key, surveyed)
        recorded = surveyed.runs.get(key, _NO_RUNS)["stop"].max(initial=0)
        return bool(len(units.keys)) and int((units.keys + units.messages).max()) >= recorded

    def _proven(self, key: QueueKey, surveyed: SurveyedLog) -> LiveUnits:
        """Return the units of a queue but for those that prove no message of it, by queue offset."""
        units = self.units(key)
        units = units.only(self._beyond.proves(key, units.physical_offsets)).sane
        units = LiveUnits(*(column[np.argsort(units.keys, kind="stable")] for column in units))
        runs = surveyed.runs.get(key, _NO_RUNS)
        runs = runs[int(np.flatnonzero(np.append([True], runs["anew"][1:]))[-1]) :]  # the last generation
        is_judged = covered(runs["first"], runs["stop"], units.keys)
        is_judged |= ~surveyed.without_record(units.physical_offsets)
        places = units.physical_offsets
        return units.only(able_to_prove(is_judged, lambda numbers: _are_own(key, places[numbers], surveyed)))

    def _pins(self, key: QueueKey, surveyed: SurveyedLog) -> list[Pin]:
        places = self._places.get(key, _NOWHERE)
        places = places[np.searchsorted(places, surveyed.start) :]
        if not len(places) or not (len(surveyed.unplaced) or surveyed.without_record(places).any()):
            return []
        pins = _free(self._proven(key, surveyed), surveyed)
        columns = pins.keys, pins.messages, pins.physical_offsets, pins.sizes, pins.tags_codes
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return sorted(Pin(key, count, place, size, tags, "listed") for key, count, place, size, tags in rows)


def _are_own(key: QueueKey, places: Int64s, surveyed: SurveyedLog) -> Bools:
    """Return at which places, ``(n,)``, a record of a queue begins, or one that names it as a light queue."""
    are_own = np.zeros(len(places), np.bool_)
    for number, place in enumerate(places.tolist()):
        record = record_at(surveyed.log, place)
        if record is not None and record.head.physical_offset == place:
            own = record.topic, record.head.queue_id
            are_own[number] = own == key or key in [light[:2] for light in record.light_places]
    return are_own


def _free(units: LiveUnits, surveyed: SurveyedLog) -> LiveUnits:
    """Return the units that lead to where a record can have been, and none of a known queue is."""
    units = units.only(units.physical_offsets >= surveyed.start)
    ranges = units.physical_offsets, units.sizes
    return units.only(surveyed.is_free(*ranges) | surveyed.meets_unplaced(*ranges))


def _generations(runs: Rows, pins: list[Pin]) -> Iterator[tuple[list[Pin], Kept, bool]]:
    """Yield the runs of a queue up to where its queue offsets begin again; the pins are of the last."""
    bounds = [0, *(number for number in np.flatnonzero(runs["anew"]).tolist() if number), len(runs)]
    for number, start in enumerate(bounds[:-1]):
        last = number == len(bounds) - 2
        yield pins if last else [], _ascending(runs[start : bounds[number + 1]]), last


def _ascending(runs: Rows) -> Kept:
    """Return runs as far as they go beyond those before them."""
    first, stop = runs["first"], runs["stop"]
    reach = np.maximum.accumulate(stop) if len(stop) else stop
    before = np.concatenate([first[:1], reach[:-1]])
    first = np.maximum(first, before)
    new = stop > first
    return Kept(first[new], stop[new], runs["place"][new], runs["end"][new])


def _of_queue(key: QueueKey, absent: list[Absent], runs: Rows) -> QueueLosses:
    listed = sum(gone.messages for gone in absent if gone.log_offset is not None)
    consumed = sum(gone.messages for gone in absent if gone.cause == "consumed")
    unlisted = sum(gone.messages for gone in absent) - listed - consumed
    firsts = [gone.queue_offset for gone in absent] + runs["first"].tolist()
    ends = [gone.queue_offset + gone.messages for gone in absent] + runs["stop"].tolist()
    there = int((runs["stop"] - runs["first"]).sum())
    return QueueLosses(*key, min(firsts), max(ends), there, listed, unlisted, consumed)


class LossListener(Protocol):
    """Receives lost messages."""

    def absent(self, queue: QueueKey, absent: Iterable[Absent]) -> object:
        """Take those of a queue."""

    def indexed(self, places: Iterable[int]) -> object:
        """Take the places of those to which index items alone lead."""

    def before(self, queue: QueueKey | None, units: LiveUnits) -> object:
        """Take those of a queue that lie before the log; None are those that index items alone name."""


def before_log(store: Store, start: int) -> Iterator[tuple[QueueKey | None, LiveUnits]]:
    """Yield the messages before a log's first byte, at ``start``, that something still leads to.

    A message counts in its own queue, not in light ones, too; queue and index files that cannot be read prove
    nothing. Of a queue, only the units before the first that leads into the log are read. With topic and
    queue id come the units; of those to which index items alone lead, None and nothing but the places.
    """
    if start <= 0:
        return
    named, unread = [_NOWHERE], list[str]()
    for kind in UNIT_QUEUE_KINDS:
        if store.read_root(kind) is None:
            continue
        with suppress(EnvironmentFailureError):
            for queue in queues_of(store, kind):
                if (queue.topic or "").startswith(LMQ_PREFIX):
                    continue
                with suppress(EnvironmentFailureError):
                    for units in _units_before(queue, start):
                        named.append(units.physical_offsets)
                        yield (queue.topic or "", queue.queue_id or 0), units
                queue.close()
    places = indexed_places(
        store,
        lambda places, sizes: (places >= 0) & (places + sizes <= start),
        lambda low, high: max(min(high, start) - low, 0),
        unread,
    )
    places = places[~np.isin(places, np.concatenate(named))]
    if len(places):
        none = np.zeros(len(places), np.int64)
        yield None, LiveUnits(none, places, none, none, none + 1)


def _units_before(queue: Queue, start: int) -> Iterator[LiveUnits]:
    for units in queue.units():
        stop = int(np.argmax(np.append(units.physical_offsets >= start, [True])))
        sane = units.only(np.arange(len(units.keys)) < stop).sane
        if len(sane.keys):
            yield sane
        if stop < len(units.keys):
            return


def losses_of(
    store: Store, findings: FindingLog, engine: Engine | None = None, *, is_suspect: bool
) -> LogLosses | None:
    """Return what a log has lost, and report it; of one that is not suspect, what lay before its first byte.

    None if the store is only a part that cannot prove any loss, or nothing lay there.
    """
    if not is_suspect:
        return losses_of_sound_log(store)
    account = account_of(store)
    if not account.can_tell:
        return None
    account.look(engine, is_suspect=True)
    losses = account.losses()
    findings.extend(account.findings(losses))
    return losses


def losses_of_sound_log(store: Store) -> LogLosses | None:
    """Return the messages before a log that has lost nothing else, without reading it; None without any."""
    before = _count_before(store, store.commitlog.start if len(store.commitlog) else 0, None)
    return NO_LOSSES._replace(before=before) if before else None


def _count_before(store: Store, start: int, lost: LossListener | None) -> int:
    before = 0
    for key, units in before_log(store, start):
        before += int(units.messages.sum())
        if lost is not None:
            lost.before(key, units)
    return before


def log_losses(account: LogAccount, surveyed: SurveyedLog, lost: LossListener | None = None) -> LogLosses:
    """Return the losses of a log."""
    queues, named, holes = [], list[tuple[int, int, int]](), list[Hole]()
    for key, absent, losses in account.losses(surveyed):
        queues.append(losses)
        for gone in absent:
            if gone.log_offset is None or gone.size is None:
                holes.append(Hole(gone.start, gone.stop, gone.messages))
            else:
                named.append((gone.log_offset, gone.log_offset + gone.size, gone.messages))
        if lost is not None:
            lost.absent(key, absent)
    indexed = unaccounted(account.indexed(surveyed), (one[0] for one in named), holes)
    if lost is not None:
        lost.indexed(indexed.tolist())
    displaced = set(surveyed.displaced[surveyed.displaced >= surveyed.end].tolist())
    after = [one for one in named if one[0] >= surveyed.end and one[0] not in displaced]
    beyond = [place for place in indexed.tolist() if place >= surveyed.end]
    consumed = sum(queue.consumed for queue in queues)
    stops = [stop for _, stop, _ in after] + [place + SMALLEST_RECORD for place in beyond]
    messages = sum(queue.messages for queue in queues) + len(indexed)
    is_open = (
        bool(after)
        and not (beyond or consumed)
        and not is_borne_out(account.store, surveyed.end, surveyed.latest_ms)
    )
    open_ = sum(count for _, _, count in after) if is_open else 0
    before = _count_before(account.store, surveyed.start, lost)
    damaged = sum(
        count for place, _, count in named if place < surveyed.end and holds_bytes(surveyed.log, place)
    )
    readable, confirmed = surveyed.readable, account.store.confirm_offset
    later = 0 if confirmed is None else int(np.count_nonzero(readable[:, 0] >= confirmed))
    still = int(readable[:, 1].sum())
    found = LogLosses(
        messages=messages,
        listed=sum(queue.listed for queue in queues),
        unlisted=sum(queue.unlisted for queue in queues),
        consumed=consumed,
        indexed=len(indexed),
        beyond=sum(messages for _, _, messages in after) + len(beyond) + consumed,
        beyond_bytes=max(stops) - surveyed.end if stops else None,
        queues=tuple(queues),
        states=MessageStates(
            there=surveyed.records - surveyed.marked - len(readable) + later,
            unconfirmed=surveyed.marked - later,
            cut=None,
            damaged=damaged + still,
            gone=messages - damaged - open_,
            open=open_,
            before=before,
            readable=still,
        ),
        before=before,
    )
    found.check()
    return found


class StoreAccount:
    """The account of a store; `account_of` returns the one that all share in a run.

    ``log`` is as it lies there; None is the store's, or that beside the part that is shown. ``reading`` is of
    the log, its files where their records say, if it had to be read by evidence.
    """

    def __init__(self, store: Store, log: FileQueue | None = None) -> None:
        self._store, self.log = store, store.own_log if log is None else log
        self._surveyed: SurveyedLog | None = None
        self.reading: Reading | None = None

    @property
    def surveyed(self) -> SurveyedLog:
        """Return the log's content, by the evidence; records that replicas have not confirmed are marked."""
        return self.look()

    def look(self, engine: Engine | None = None, *, is_suspect: bool = False) -> SurveyedLog:
        """Return ``surveyed``; what must be read for it is read on an engine, or in threads of its own.

        Of a suspect log it is known that a walk along it finds something odd.
        """
        if self._surveyed is None and is_suspect:
            self._surveyed = self._by_evidence(engine)
        elif self._surveyed is None:
            self.decided(survey(self.log, self._store.confirm_offset), engine)
        assert self._surveyed is not None
        return self._surveyed

    def decided(self, surveyed: SurveyedLog, engine: Engine | None = None) -> SurveyedLog:
        """Return the log's content where the evidence has it, if a walk along it finds anything odd.

        Files then lie where their records say, and records below false frames take the place of these.
        """
        if surveyed.is_odd or self.of_queues.lists_more(surveyed):
            surveyed = self._by_evidence(engine)
        self._surveyed = surveyed
        return surveyed

    def _by_evidence(self, engine: Engine | None) -> SurveyedLog:
        from rmqtool.genuine.reading import read_by_evidence, reads_all  # a sound log needs none

        reading, confirmed = read_by_evidence(self._store, self.log, engine), self._store.confirm_offset
        self.reading = reading
        if reading.log == self.log and reads_all(reading.copy):
            return survey_of(reading, confirmed)
        starts = {segment.label: segment.start for segment in self.log}
        moved = {segment.label for segment in reading.log if segment.start != starts[segment.label]}
        return survey(reading.log if moved else self.log, confirmed, reading, moved)

    @property
    def has_surveyed(self) -> bool:
        """Whether the log's content is known by now."""
        return self._surveyed is not None

    @cached_property
    def of_queues(self) -> LogAccount:
        """Return what the queues, the index and the consumers' offsets prove."""
        return LogAccount(self._store)

    @cached_property
    def _listed(self) -> dict[QueueKey, Int64s]:
        """Return by queue the places of messages that are lost, and that units point to."""

        def places(absent: list[Absent]) -> Int64s:
            return np.array([gone.log_offset for gone in absent if gone.log_offset is not None], np.int64)

        return {key: places(absent) for key, absent, _ in self.of_queues.losses(self.surveyed)}

    def proves(self, key: QueueKey, units: LiveUnits) -> Bools:
        """Return which units of a queue, ``(n,)``, lead to a message of it: there, or lost."""
        places, surveyed = units.physical_offsets, self.surveyed
        runs = surveyed.runs.get(key, _NO_RUNS)
        are_own = covered(runs["first"], runs["stop"], units.keys)
        are_own &= covered(runs["place"], runs["end"], places)
        rest = np.flatnonzero(~are_own)  # few: misplaced units, and those of other queues
        are_own[rest] = _are_own(key, places[rest], surveyed)
        return self.lists_lost(key, places) | (are_own & ~surveyed.without_record(places))

    def lists_lost(self, key: QueueKey, physical_offsets: Int64s) -> Bools:
        """Return which units of a queue, by where they lead to, ``(n,)``, prove a message that is lost."""
        return np.isin(physical_offsets, self._listed.get(key, ()))

    @cached_property
    def is_log_cut(self) -> bool:
        """Whether index or checkpoint, too, know of messages missing from the log's end.

        ``abort`` excuses nothing: a killed broker dispatches what it has written, and what a power failure
        takes is lost.
        """
        return is_borne_out(self._store, self.surveyed.end, self.surveyed.latest_ms)

    @property
    def can_tell(self) -> bool:
        """Whether the store has proofs of lost messages, and its log is fully read, or missing."""
        if not self._store.can(Deed.COMPARE) or (
            self._store.kind is not PathKind.STORE and not len(self.log)
        ):
            return False
        return not self._store.roots.keys().isdisjoint((*UNIT_QUEUE_KINDS, PathKind.INDEX))

    def losses(self, lost: LossListener | None = None) -> LogLosses:
        """Return the losses of the log; a listener receives them, too."""
        return self._losses if lost is None else log_losses(self.of_queues, self.surveyed, lost)

    @cached_property
    def _losses(self) -> LogLosses:
        return log_losses(self.of_queues, self.surveyed)

    def findings(self, losses: LogLosses) -> Iterator[Finding]:
        """Yield that the log was longer once, has files of another, or records which no broker reaches."""
        for segment in self.log:
            if (start := self.surveyed.foreign.get(segment.label)) is not None:
                position = start - segment.start
                where = "from here on " if position else ""
                yield Finding(
                    code=codes.CL_FOREIGN,
                    file=segment.label,
                    position=position,
                    length=segment.size_bytes - position,
                    physical_offset=start,
                    message=f"{where}queues and index have other places in it than its records,"
                    " other keys or topics",
                )
        if losses.states is not None and len(self.surveyed.unreached):
            yield unreached_finding(self.surveyed)
        if losses.beyond and len(self.log):  # else ST-NO-COMMITLOG says so
            yield cut_finding(losses, self.surveyed.end, sure=self.is_log_cut)


def account_of(store: Store, log: FileQueue | None = None) -> StoreAccount:
    """Return the account of a store, which is made once a run, or that of another reading of its log."""
    account = store.once(StoreAccount)
    return account if log is None or log == account.log else StoreAccount(store, log)
