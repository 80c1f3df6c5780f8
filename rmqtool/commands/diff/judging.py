"""Judgement of two copies of a log, once both were walked; its result is a `CopiesVerdict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.diff.verdict import (
    Answer,
    CopiesVerdict,
    EntryMark,
    Following,
    Histories,
    LogMessage,
    LogShare,
)
from rmqtool.formats.framing import END_MARK_BYTES, PLAIN
from rmqtool.scan.records import record_at
from rmqtool.store import PathKind
from rmqtool.store.layouts import Deed
from rmqtool.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.commands.diff.entries import LogBounds
    from rmqtool.commands.diff.records import Parting
    from rmqtool.scan.record_walk import LogEnd
    from rmqtool.store import FileQueue, Store

_CLOCK_SLACK_MS = 1000


def judge_copies(
    stores: tuple[Store, Store],
    reaches: LogBounds,
    ends: tuple[LogEnd, LogEnd],
    parting: Parting,
    damaged_at: dict[str, int],
) -> CopiesVerdict:
    """Return the verdict, after both logs were walked; ``damaged_at`` is by side."""
    low, high = max(reaches.starts), min(reaches.ends)
    is_apart = high <= low and all(
        end > start for start, end in zip(reaches.starts, reaches.ends, strict=True)
    )
    since = parting.log_offset if parting.log_offset is not None else max(low, high)
    if is_apart:
        histories = Histories.APART
    elif parting.log_offset is not None:
        histories = Histories.PARTED
    elif parting.is_open or not all(store.can(Deed.READ_LOG) for store in stores):
        histories = Histories.UNKNOWN
    else:
        histories = Histories.EQUAL if reaches.ends[0] == reaches.ends[1] else Histories.ONE
    shares = tuple(
        _share(side, stores[side], reaches, ends[side], parting, since, damaged_at, is_apart=is_apart)
        for side in (0, 1)
    )
    shorter = 0 if reaches.ends[0] <= reaches.ends[1] else 1
    is_parted = parting.log_offset is not None
    common = None if is_parted else ends[shorter].last
    if parting.common is not None and is_parted:
        common = record_at(stores[0].commitlog, parting.common)
    ahead = "ba"[shorter] if histories in {Histories.ONE, Histories.APART} else None
    promote = ahead
    if histories is Histories.PARTED:
        better = max(shares, key=lambda share: (share.records, share.last_timestamp_ms or 0))
        promote = better.side
    following: tuple[Following, ...] = ()
    if all(store.kind is PathKind.STORE for store in stores):
        doubt, is_controlled = _doubt(stores, histories), _is_controlled(stores)
        following = tuple(
            Following(slave.side, Answer.UNKNOWN, doubt)
            if doubt
            else _by_epochs((slave, master), stores, histories, parting.log_offset)
            if is_controlled
            else _following((slave, master), stores, histories, parting.log_offset)
            for slave, master in (shares[::-1], shares)
        )
        promote = None if doubt else promote
        if promote is not None and is_controlled:  # the one that the controller prefers
            newest = [
                (max(store.epochs or {}, default=0), share.end)
                for store, share in zip(stores, shares, strict=True)
            ]
            promote = None if newest[0] == newest[1] else "ab"[newest.index(max(newest))]
    lost = next((share.records for share in shares if promote not in {None, share.side}), 0)
    place = None if is_apart else LogMessage.of(common)
    return CopiesVerdict(
        histories=histories,
        parting=parting.log_offset,
        parted_before=is_parted and parting.common is None and low > 0,
        joint=parting.joint if is_parted else None,
        common=place,
        shares=(shares[0], shares[1]),
        ahead=ahead,
        following=following,
        promote=promote,
        loses=lost,
        clocks=tuple(_clocks(place, shares, parting)),
    )


def _share(
    side: int,
    store: Store,
    reaches: LogBounds,
    end: LogEnd,
    parting: Parting,
    since: int,
    damaged_at: dict[str, int],
    *,
    is_apart: bool,
) -> LogShare:
    """Return what a side has alone; of logs without a byte in both, nothing of it is older."""
    start, stop, other = reaches.starts[side], reaches.ends[side], 1 - side
    until = min(stop, reaches.ends[other]) if parting.joint is None else parting.joint
    own = max(0, until - since) + max(0, stop - max(reaches.ends[other], start))
    older = max(0, min(stop, reaches.starts[other]) - start)
    records, older_records = parting.beyond[side], parting.older[side]
    records += parting.own[side] if parting.log_offset is not None else 0
    log, last = store.commitlog, end.last
    segment = log.segment_at(since)
    if parting.log_offset is None and segment is not None:  # the other log's end, where a frame begins
        since = segment.framing.record_at(since)
    first = (LogMessage.of(record_at(log, since)), EntryMark.at(log, since)) if own else (None, None)
    if is_apart:
        records, own, older_records, older = records + older_records, own + older, 0, 0
    return LogShare(
        side="ab"[side],
        start=start,
        end=stop,
        records=records,
        bytes=own,
        older_records=older_records,
        older_bytes=older,
        first=first[0],
        last_timestamp_ms=end.last_ms,
        damaged_at=damaged_at.get("ab"[side]),
        first_entry=first[1],
        last_entry=EntryMark.at(log, None if last is None else last.physical_offset),
    )


def _doubt(stores: tuple[Store, Store], histories: Histories) -> str:
    """Return why classic HA's rules do not answer; empty if they do."""
    if histories is Histories.UNKNOWN:
        return "not all of the logs could be compared"
    if any(segment.framing is not PLAIN for store in stores for segment in store.commitlog):
        return "the members of a DLedger group settle it themselves, by their entries' terms"
    for store, side in zip(stores, "AB", strict=True):
        if store.confirm_offset is not None and store.read_epochs and store.read_epochs[-1][1] is None:
            return (
                f"no broker in controller mode starts with the epoch file of {side}: rmqtool verify has more"
            )
    lines = {release.line for store in stores for release in store.settings.candidates}
    if not set.intersection(*({r.line for r in store.settings.candidates} for store in stores)):
        return f"they are of releases {' and '.join(sorted(lines))}, and that was never tried"
    return ""


def _is_controlled(stores: tuple[Store, Store]) -> bool:
    return any(store.confirm_offset is not None for store in stores)


def _by_epochs(
    pair: tuple[LogShare, LogShare], stores: tuple[Store, Store], histories: Histories, parting: int | None
) -> Following:
    """Return what becomes of a slave in controller mode (``AutoSwitchHAClient#doTruncate``, 5.3.3, 5.5.1)."""
    slave, master = pair
    name = master.side.upper()
    log = stores["ab".index(slave.side)].commitlog
    own, others = (stores["ab".index(share.side)].epochs or {} for share in pair)
    if not own:  # nothing is compared
        following = _following(pair, stores, histories, parting)
        place = following.cut_at or slave.end or master.start
        if not 0 < place < min(others.values(), default=master.end):
            return following
        why = f"it has no epochs, and none of {name}'s has byte {place}, from which {name} would have to send"
        return Following(slave.side, Answer.COPY, f"{why}: nothing is copied")
    mine, theirs = _epoch_ends(own, slave.end), _epoch_ends(others, master.end)
    joint = max((start for start in mine if start in theirs), default=None)
    if joint is None:
        why = f"no epoch of it begins where {name}'s does: nothing is copied"
        return Following(slave.side, Answer.COPY, why)
    cut = min(mine[joint], theirs[joint])
    until = f"both have epoch {joint[0]} up to byte {cut}"
    wrong = min((place for place in (parting, slave.damaged_at) if place is not None), default=cut)
    if wrong < cut:
        what = "the logs part" if wrong == parting else "its log is damaged"
        why = f"{until}, so it keeps all before, but {what} at byte {wrong}: no broker compares content"
    elif cut >= slave.end:
        return Following(slave.side, Answer.YES, f"{until}, so it continues from byte {slave.end}")
    elif _begins_at(log, cut):
        why = f"{until}, so it cuts its own log there, and continues"
        return Following(slave.side, Answer.YES, why, cut)
    else:
        why = f"{until}, and no record of it begins there: it cannot cut its log, and nothing is copied"
    return Following(slave.side, Answer.COPY, why)


def _epoch_ends(epochs: dict[int, int], log_end: int) -> dict[tuple[int, int], int]:
    """Return where each epoch ends, by its number and start; the last one with the log."""
    places = sorted(epochs.items())
    return dict(zip(places, [*(start for _, start in places[1:]), log_end], strict=False))


def _begins_at(log: FileQueue, offset: int) -> bool:
    """Whether a record begins there, or the mark that ends a file."""
    segment = log.segment_at(offset)
    if segment is None or record_at(log, offset) is not None:
        return segment is not None
    return segment.framing.end_size(segment.read_at(offset - segment.start, END_MARK_BYTES, [])) is not None


def _following(
    pair: tuple[LogShare, LogShare], stores: tuple[Store, Store], histories: Histories, parting: int | None
) -> Following:
    """Return what becomes of a slave and its master; 4.9.8 and 5.x do the same, but for a longer log."""
    slave, master = pair
    name = master.side.upper()
    log, files = (stores["ab".index(share.side)].commitlog for share in pair)
    if not slave.end:
        last = files.segments[-1].start if len(files) else 0
        if not last or _is_controlled(stores):
            return Following(slave.side, Answer.YES, f"its log is empty, and gets all of {name}'s")
        why = f"its log is empty: {name} sends only its last file, from byte {last} on"
        return Following(slave.side, Answer.LAST_FILE, why)
    if slave.end < master.start:
        why = f"its log ends at {slave.end}, before {name}'s first byte {master.start}: it waits for ever"
        return Following(slave.side, Answer.COPY, why)
    cuts = [place for place in (parting, slave.damaged_at) if place is not None]
    cuts += [master.end] if slave.end > master.end else []
    if not cuts:
        return Following(slave.side, Answer.YES, f"it continues from byte {slave.end}")
    cut = min(cuts)
    if cut == parting or histories is Histories.APART:
        why = (
            f"no broker compares content, so it would keep its own history and get {name}'s bytes after that,"
            " mostly from the middle of a record; its queues would stand still there"
        )
    elif cut == slave.damaged_at:
        why = f"only bytes after its log's end are copied: the damage at byte {cut} would stay"
    else:
        why = _longer(name, stores["ab".index(master.side)])
    segment = log.segment_at(cut - 1) if max(slave.start, master.start) < cut else None
    if segment is None or histories is Histories.APART:
        return Following(slave.side, Answer.COPY, why)
    return Following(slave.side, Answer.CUT, why, cut, segment.label, cut - segment.start)


def _longer(name: str, master_store: Store) -> str:
    lines = {release.line for release in master_store.settings.candidates}
    ways = []
    if "4.9" in lines:
        ways.append(f"{name} refuses it again and again (4.9)")
    if lines - {"4.9"}:
        ways.append(
            f"it gets nothing, and, once {name} has grown past it, bytes that do not fit its own (5.x)"
        )
    return f"its log is longer: {', or '.join(ways)}"


def _clocks(common: LogMessage | None, shares: tuple[LogShare, ...], parting: Parting) -> Iterator[str]:
    """Yield what the store times show about the clocks, and about two masters at one time."""
    for share in shares:
        if share.first is None or common is None:
            continue
        early = common.store_timestamp_ms - share.first.store_timestamp_ms
        if early >= _CLOCK_SLACK_MS:
            name, seconds = share.side.upper(), round(early / 1000)
            yield f"the messages of {name} alone begin {seconds:,} s before the last common one was stored"
    if parting.log_offset is None or parting.joint is not None:
        return
    firsts = [share.first.store_timestamp_ms for share in shares if share.first is not None]
    lasts = [share.last_timestamp_ms for share in shares if share.last_timestamp_ms is not None]
    if len(firsts) == len(lasts) == len(shares) and max(firsts) <= min(lasts):
        begin, end = time_text(max(firsts)), time_text(min(lasts))
        yield f"both took messages from {begin} to {end}: two masters at one time"
