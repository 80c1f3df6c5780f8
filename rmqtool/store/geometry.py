"""Facts that an index file does not state: its number of hash slots, and the time zone of its name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import DeniedError, UsageError
from rmqtool.formats.index import (
    HEADER_SIZE,
    HEADERS,
    ITEM,
    ITEM_SIZE,
    ITEMS,
    SLOT_SIZE,
    SLOTS,
    ItemFields,
    file_size,
    item_position,
    slot_position,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.store.segments import StoreFile


DEFAULT_SLOTS = 5_000_000
ITEMS_PER_SLOT = 4
"""The default ratio; operators who change one number usually keep it."""

_WINDOW = 4 << 20
_SAMPLES = 64
_MAX_CANDIDATES = 1000
_LARGEST_INT = (1 << 31) - 1


class Geometry(NamedTuple):
    """Division of an index file: ``maxHashSlotNum`` and ``maxIndexNum``. Item 0 is never used."""

    slots: int
    items: int

    @property
    def size_bytes(self) -> int:
        """The size of a file of this geometry."""
        return file_size(self.slots, self.items)


def geometry_of_size(
    size_bytes: int, *, slots: int | None = None, items: int | None = None
) -> Geometry | None:
    """Return the geometry of a size with one number known, else in the default ratio; None if impossible."""
    body = size_bytes - HEADER_SIZE
    if slots is None:
        per_slot = SLOT_SIZE + ITEMS_PER_SLOT * ITEM_SIZE
        room, step = (body, per_slot) if items is None else (body - items * ITEM_SIZE, SLOT_SIZE)
        slots, rest = divmod(room, step)
        items = slots * ITEMS_PER_SLOT if items is None else items
    else:
        items, rest = divmod(body - slots * SLOT_SIZE, ITEM_SIZE)
    legal = rest == 0 and 0 < slots <= _LARGEST_INT and 0 < items <= _LARGEST_INT
    return Geometry(slots, items) if legal else None


def infer_geometry(file: StoreFile) -> Geometry | None:
    """Return the geometry that the contents of an index file prove, None if they prove none.

    Reads a few items of a default or a full file; otherwise looks for the last byte that is not zero, in the
    worst case through the whole file once, in bounded memory. A file without items proves nothing.
    """
    probe = _Probe.open(file)
    if probe is None:
        return None
    for slots in probe.candidates():
        geometry = geometry_of_size(probe.size_bytes, slots=slots)
        if geometry is not None and probe.fits(geometry):
            return geometry
    return None


def own_geometry(file: StoreFile, given: Geometry) -> Geometry | None:
    """Return the proven geometry where the given one contradicts the first or last item, else None."""
    probe = _Probe.open(file)
    if probe is None or probe.ends_fit(given):
        return None
    proven = infer_geometry(file)
    return None if proven == given else proven


class _Probe(NamedTuple):
    """An index file with the facts of its header, to test geometries on."""

    file: StoreFile
    size_bytes: int
    begin_phy: int
    end_phy: int
    items: int

    @classmethod
    def open(cls, file: StoreFile) -> _Probe | None:
        """Read the header; None if the file has no items or is too short for one."""
        header = HEADERS.decode(file.read_at(0, HEADER_SIZE, []))
        if header is None:
            return None
        begin_phy, end_phy = header.begin_phy_offset, header.end_phy_offset
        size_bytes = file.current_size()
        count = header.index_count - 1
        possible = 0 < count <= (size_bytes - HEADER_SIZE) // ITEM_SIZE and 0 <= begin_phy <= end_phy
        return cls(file, size_bytes, begin_phy, end_phy, count) if possible else None

    def candidates(self) -> Iterator[int]:
        """Yield slot counts worth a test: first the surest if it is cheap, else the cheapest."""
        if self.size_bytes <= _WINDOW:
            yield from self._by_last_used_cell()
        if self.size_bytes == file_size(DEFAULT_SLOTS, DEFAULT_SLOTS * ITEMS_PER_SLOT):
            yield DEFAULT_SLOTS
        yield (self.size_bytes - HEADER_SIZE - (self.items + 1) * ITEM_SIZE) // SLOT_SIZE  # a full file
        if self.size_bytes > _WINDOW:
            yield from self._by_last_used_cell()
        usual = geometry_of_size(self.size_bytes)
        if usual is not None:
            yield usual.slots
        yield from self._by_last_offset()

    def fits(self, geometry: Geometry) -> bool:
        """Whether items and slots of a geometry agree with the header and with each other."""
        if not self.ends_fit(geometry):
            return False
        first = self._item(geometry, 1)
        if not any(first) or first.previous != 0:
            return False  # zeros prove nothing: unused space would be item 1 of a log that begins at 0
        step = max(1, self.items // _SAMPLES)
        return all(map(partial(self._item_fits, geometry), range(1, self.items + 1, step)))

    def ends_fit(self, geometry: Geometry) -> bool:
        """Whether the first and the newest item of a geometry are those of the header."""
        if self.items >= geometry.items:
            return False
        newest = self._item(geometry, self.items)
        ends = self._item(geometry, 1).physical_offset, newest.physical_offset
        return ends == (self.begin_phy, self.end_phy) and self._slot(geometry, newest.key_hash) == self.items

    def _item_fits(self, geometry: Geometry, number: int) -> bool:
        key_hash, phy, time_diff, previous = self._item(geometry, number)
        if (
            key_hash < 0
            or time_diff < 0
            or not (self.begin_phy <= phy <= self.end_phy and 0 <= previous < number)
        ):
            return False
        if not number <= self._slot(geometry, key_hash) <= self.items:
            return False
        if previous == 0:
            return True
        return bool(self._item(geometry, previous).key_hash % geometry.slots == key_hash % geometry.slots)

    def _item(self, geometry: Geometry, number: int) -> ItemFields:
        data = self.file.read_at(item_position(geometry.slots, number), ITEM_SIZE, [])
        return ITEMS.padded(data.ljust(ITEM_SIZE, b"\xff"))

    def _slot(self, geometry: Geometry, key_hash: int) -> int:
        data = self.file.read_at(slot_position(key_hash % geometry.slots), SLOT_SIZE, [])
        return SLOTS.padded(data.ljust(SLOT_SIZE, b"\xff")).item

    def _slots_if_newest_at(self, position: int) -> int:
        return (position - self.items * ITEM_SIZE - HEADER_SIZE) // SLOT_SIZE

    def _cell_of(self, position: int) -> int:
        """Return the start of the 20-byte cell around a position; cells are counted from the file's end."""
        return self.size_bytes - -(-(self.size_bytes - position) // ITEM_SIZE) * ITEM_SIZE

    def _by_last_used_cell(self) -> Iterator[int]:
        """Yield the slot count that makes the last cell with contents the newest item, as in a sound file."""
        stop = self.size_bytes
        while stop > HEADER_SIZE:
            start = max(HEADER_SIZE, stop - _WINDOW)
            data = self.file.read_at(start, stop - start, [])
            used = len(data.rstrip(b"\0"))
            if used:
                yield self._slots_if_newest_at(self._cell_of(start + used - 1))
                return
            stop = start

    def _by_last_offset(self) -> Iterator[int]:
        """Yield slot counts that put the newest item where the header's last offset is found."""
        if self.end_phy == 0:
            return
        needle = ITEM.physicalOffset.build(self.end_phy)
        overlap = len(needle) - 1
        candidates = 0
        for start in range(HEADER_SIZE, self.size_bytes, _WINDOW):
            data = self.file.read_at(start, _WINDOW + overlap, [])
            at = data.find(needle)
            while at >= 0:
                yield self._slots_if_newest_at(self._cell_of(start + at))
                candidates += 1
                if candidates == _MAX_CANDIDATES:
                    return
                at = data.find(needle, at + 1)


_QUARTER_HOUR_MS = 900_000
_TOLERANCE_MS = 20_000
"""A file is created when its first message is dispatched, moments after the message's store time."""
_WESTMOST, _EASTMOST = -12 * 4, 14 * 4  # quarter hours
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def infer_index_zone(files: Iterable[StoreFile]) -> timezone | None:
    """Return the offset on which the files agree, or None.

    A name is the wall clock at creation. Its distance from the header's begin time is the zone's offset, a
    whole number of quarter hours, and a small delay. Files of a rebuilt index were made long after their
    messages, so their distances fit no zone and do not count. Where files disagree by summer time, the newest
    counts.
    """
    offsets = [offset for offset in map(_offset_of, files) if offset is not None]
    if not offsets or max(offsets) - min(offsets) > timedelta(hours=1):
        return None
    return timezone(offsets[-1])


def zone_of_name(text: str) -> tzinfo:
    """Return the zone of an IANA name, ``UTC``, or an offset such as ``+08:00``; may raise `UsageError`."""
    match = _FIXED_OFFSET.fullmatch(text.strip())
    if match is not None:
        sign = -1 if match[1] == "-" else 1
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if offset < timedelta(hours=19):
            return timezone(sign * offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # large, and rarely needed

    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as failure:
        hint = "give a name such as Asia/Shanghai or an offset such as +08:00"
        raise UsageError(f"no time zone is called {text!r}; {hint}") from failure


def local_zone() -> tzinfo:
    """Return this machine's zone with all its changes of offset, not only today's."""
    return _LocalZone()


class _LocalZone(tzinfo):
    """The C library's zone: ``localtime`` of any moment."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return self._of(moment).utcoffset() or timedelta(0)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return self._of(moment).tzname()

    def fromutc(self, moment: datetime) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone()
        return local.replace(tzinfo=self)

    def _of(self, moment: datetime | None) -> datetime:
        naive = datetime.now(UTC).replace(tzinfo=None) if moment is None else moment.replace(tzinfo=None)
        return naive.astimezone()


def _offset_of(file: StoreFile) -> timedelta | None:
    try:
        header = HEADERS.decode(file.read_at(0, HEADERS.size, []))
    except DeniedError:
        return None
    named_ms = _wall_clock_ms(file.path.name)
    if header is None or named_ms is None or header.begin_timestamp_ms <= 0 or header.index_count <= 1:
        return None
    quarters, rest = divmod(named_ms - header.begin_timestamp_ms + _TOLERANCE_MS, _QUARTER_HOUR_MS)
    if rest > 2 * _TOLERANCE_MS or not _WESTMOST <= quarters <= _EASTMOST:
        return None
    return timedelta(minutes=15 * quarters)


def _wall_clock_ms(name: str) -> int | None:
    """Read ``yyyyMMddHHmmssSSS`` as milliseconds, as if it were UTC; None if it is not a valid time."""
    try:
        moment = datetime.fromisoformat(f"{name[:8]}T{name[8:14]}").replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1) + int(name[14:])
    except ValueError:
        return None
