"""The range of releases that wrote a store last, inferred from its files.

Signs (5.3.3 to 5.5.1): places that only newer brokers make (`rmqtool.store.places`); RocksDB's version in
the newest ``rocksdbstore/OPTIONS-*``, of which each start of 5.4.0+ writes one; ``checkpoint[40]``, which
5.5.0+ writes; and the form of ``config/consumerOffset.json``, which a running broker writes every few
seconds: without it, an older broker that was started last leaves no sign. Tag items in the index
(`Release.tag_items`) show the same as RocksDB's files, where these were not copied. That something newer is
missing shows nothing where ``config/``, which every broker has, is missing, too: then the files are a part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import EnvironmentFailureError
from rmqtool.releases import DEFAULT, NEWEST, RELEASES
from rmqtool.store.broker_conf import BROKER_VERSION, Origin, Setting
from rmqtool.store.kinds import PLACES, ROCKSDB_STORE

if TYPE_CHECKING:
    from rmqtool.io import Location

_OPTIONS_NAME = re.compile(r"OPTIONS-([0-9]{1,18})")
_OPTIONS_HEAD = 1 << 16
_ROCKSDB_VERSION = re.compile(rb"^\s*rocksdb_version=([0-9.]{1,20})\s*$", re.MULTILINE)

_OFFSETS_HEAD = 1 << 20
_OFFSET_MAP = re.compile(rb'"[^"\\@]{1,512}@[^"\\@]{0,512}"\s*:\s*\{(\s*)-?[0-9]+\s*:')

OLDEST_5 = "5.0.0"
FORM_OF_OFFSETS = "the form of config/consumerOffset.json"

FIRST_WITH_TAG_ITEMS = next(name for name, release in RELEASES.items() if release.tag_items)
_LAST_WITHOUT_ROCKSDB = [name for name, release in RELEASES.items() if not release.rocksdb][-1]
_INCOMPLETE = ", and config/ is missing, so that newer files may be, too"
_FIRST_WITH_ROCKSDB = next(name for name, release in RELEASES.items() if release.rocksdb)


class _Writers(NamedTuple):
    """The release whose rules apply, and all known ones that may have written a store last, oldest first.

    ``said`` is the same in words, empty where it is certain.
    """

    release: str
    candidates: tuple[str, ...]
    said: str
    reason: str


class Signs(NamedTuple):
    """Signs of brokers in the files of one store.

    ``since`` is the newest release of which something was found that older ones do not make, and that thing;
    ``rocksdb`` is the version and the options file that names it.
    Without ``has_config``, files were left out. Nobody starts a broker without batch queues on a store that
    has some.
    """

    since: tuple[str, str] | None = None
    rocksdb: tuple[str, str] | None = None
    has_older_offsets: bool = False
    has_newer_offsets: bool = False
    has_checkpoint: bool = False
    has_config: bool = False
    has_batch_queues: bool = False

    @property
    def touched_by_5_4(self) -> bool:
        """Whether a 5.4.0+ broker was ever started on the store; an older one may have written last."""
        return self.since is not None and _number(self.since[0]) >= _number(_FIRST_WITH_ROCKSDB)


def version_of(signs: Signs) -> Setting:
    """Return the release that wrote a store last, with all that may have; the default without any sign."""
    writers = _writers(signs)
    if writers is None:
        note = "no evidence in the store"
        return Setting(BROKER_VERSION, DEFAULT.name, Origin.DEFAULT, note, tuple(RELEASES))
    note = f"{writers.said}, from {writers.reason}" if writers.said else writers.reason
    return Setting(BROKER_VERSION, writers.release, Origin.INFERRED, note, writers.candidates)


def _writers(signs: Signs) -> _Writers | None:
    if signs.touched_by_5_4 and signs.has_older_offsets:
        reason = f"{FORM_OF_OFFSETS}; {_FIRST_WITH_ROCKSDB} or newer was here before"
        return _between("", _LAST_WITHOUT_ROCKSDB, reason)
    if signs.since is not None and signs.touched_by_5_4:
        oldest, reason = signs.since
        writers = _last_started(*signs.rocksdb) if signs.rocksdb else _between(oldest, NEWEST.name, reason)
        return writers if signs.has_newer_offsets else _or_older(writers, signs)
    if signs.since is not None:
        newest, more = (_LAST_WITHOUT_ROCKSDB, "") if signs.has_config else (NEWEST.name, _INCOMPLETE)
        return _between(signs.since[0], newest, f"{signs.since[1]}{more}")
    return _of_checkpoint(signs) if signs.has_checkpoint else None


def _of_checkpoint(signs: Signs) -> _Writers:
    reason = "a checkpoint, and nothing that only 5.x makes"
    names = tuple(name for name in RELEASES if _number(name) < _number(OLDEST_5))
    if signs.has_config:
        return _Writers(names[-1], names, "4.9.x", reason)
    return _Writers(names[-1], tuple(RELEASES), "4.9.x or newer", f"{reason}{_INCOMPLETE}")


def _last_started(rocksdb: str, path: str) -> _Writers:
    """Return the 5.4.0+ broker that was started last, by the RocksDB that it includes."""
    reason = f"rocksdb_version={rocksdb} in {path}"
    names = tuple(name for name, release in RELEASES.items() if release.rocksdb == rocksdb)
    if names:
        return _Writers(names[-1], names, " or ".join(names) if names[1:] else "", reason)
    reason += f", which no known release has; the rules of {NEWEST.name} are taken"
    return _Writers(NEWEST.name, (NEWEST.name,), f"newer than {NEWEST.name}, perhaps", reason)


def _or_older(writers: _Writers, signs: Signs) -> _Writers:
    """Add the older brokers that may have been started after it and wrote no offsets.

    They leave alone all that only newer ones make, and dispatch no tag items.
    """
    older = tuple(
        name
        for name, release in RELEASES.items()
        if not release.rocksdb and release.batch_queues >= signs.has_batch_queues
    )
    names = writers.said or " or ".join(writers.candidates)
    said = f"{names}, or {_LAST_WITHOUT_ROCKSDB} or older after it"
    return writers._replace(candidates=(*older, *writers.candidates), said=said)


def _between(oldest: str, newest: str, reason: str) -> _Writers:
    """Return a range of releases, with the default release's rules if in it, else the newest's."""
    low, high = _number(oldest) if oldest else (), _number(newest)
    names = tuple(name for name in RELEASES if low <= _number(name) <= high)
    release = DEFAULT.name if DEFAULT.name in names else names[-1]
    said = "" if oldest == newest else f"{oldest} to {newest}" if oldest else f"{newest} or older"
    return _Writers(release, names, said, reason)


def places_since(root: Location) -> tuple[str, str] | None:
    """Return the newest release of which a place exists, and the place; None if 4.x makes all of them."""
    signs = []
    for place in PLACES:
        if _number(place.since) >= _number(OLDEST_5):
            signs += [(place.since, path.relative_to(root)) for path in place.found_in(root)]
    return newest_sign(*signs)


def newest_sign(*signs: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return the sign with the newest release, the first of equal ones."""
    return max((sign for sign in signs if sign), key=lambda sign: _number(sign[0]), default=None)


def rocksdb_of_last_start(root: Location) -> tuple[str, str] | None:
    """Return RocksDB's version in the newest options file of ``rocksdbstore/``, and that file's path."""
    try:
        numbers = [_OPTIONS_NAME.fullmatch(name) for name, _ in (root / ROCKSDB_STORE).entries()]
    except EnvironmentFailureError:
        return None
    newest = max((match for match in numbers if match), key=lambda one: int(one[1]), default=None)
    if newest is None:
        return None
    version = _ROCKSDB_VERSION.search(_head(root / ROCKSDB_STORE / newest[0], _OPTIONS_HEAD))
    return None if version is None else (version[1].decode("ascii"), f"{ROCKSDB_STORE}/{newest[0]}")


def has_newer_offsets(root: Location) -> bool | None:
    """Whether ``config/consumerOffset.json`` puts each offset on a line of its own, as 5.4.0+ does.

    Older brokers begin an inner map on the line of its name, ``{0:29,1:102``. None where it does not exist,
    has no offsets, or was written by something else.
    """
    match = _OFFSET_MAP.search(_head(root / "config" / "consumerOffset.json", _OFFSETS_HEAD))
    return None if match is None else b"\n" in match[1]


def _head(path: Location, length: int) -> bytes:
    try:
        return path.read_head(length, [])
    except EnvironmentFailureError:
        return b""


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
