"""Opening of a store: from PATH and settings to the files of every structure."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.errors import DeniedError, EnvironmentFailureError, UsageError
from rmqtool.formats.checkpoint import CHECKPOINTS, epochs_of
from rmqtool.io import Location, location_of
from rmqtool.store.broker_conf import OPTION_NOTE, GivenSettings, Setting, given_settings
from rmqtool.store.files import TREE_DEPTH, Root, StoreFiles
from rmqtool.store.inference import SettingsInference
from rmqtool.store.kinds import (
    CONFIG_DIRECTORY,
    DIRECTORY_NAMES,
    QUEUE_KINDS,
    PathKind,
    Place,
    find_place,
)
from rmqtool.store.layouts import DATABASES_OF_QUEUES, Deed
from rmqtool.store.ledger import ENTRY_INDEX, data_of
from rmqtool.store.names import Listing, list_directories
from rmqtool.store.places import Feature, features_of, split_log
from rmqtool.store.segments import FileQueue, label_of
from rmqtool.store.settings import Settings
from rmqtool.store.twins import in_broker_order

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
    from pathlib import Path

    _Opened = tuple[Place, Mapping[PathKind, Root], GivenSettings]


def links_out(store: Store, *, in_topics: bool = False) -> Iterator[tuple[str, Location]]:
    """Yield label and target of each link that leads out of a store.

    Examines the parts of the store and their entries: files of log and index, directories of topics; with
    ``in_topics``, also the entries of topic and queue directories. Raises `EnvironmentFailureError` if one
    may not be read.
    """
    base = store.base.real()
    for link in _links(store, in_topics=in_topics):
        target = link.real()
        if not target.is_relative_to(base):
            yield label_of(link, store.base), target


def _links(store: Store, *, in_topics: bool) -> Iterator[Location]:
    for part in dict.fromkeys(path for root in store.roots.values() for path in root.paths):
        if _is_link(part):
            yield part
        yield from _links_in(part, store.listing)
    trees = (store.roots[kind] for kind in QUEUE_KINDS if in_topics and kind in store.roots)
    for root in trees:
        topics = list_directories(root.paths[0], store.base, store.listing)[0]
        for topic in topics if root.depth == TREE_DEPTH else ():
            yield from _links_in(topic, store.listing)
            for queue in list_directories(topic, store.base, store.listing)[0]:
                yield from _links_in(queue, store.listing)


def _is_link(path: Location) -> bool:
    return path.real() != path.parent.real() / path.name


def _links_in(directory: Location, listing: Listing) -> Iterator[Location]:
    return (directory / entry.name for entry in listing.entries(directory) if entry.status.is_link)


T = TypeVar("T")
EPOCHS = "epochFileCheckpoint"
_LARGEST = 1 << 20
_OF_DLEDGER = ("enableDLegerCommitLog", "dLegerSelfId")
_SPLITTER = ","
"""Default of the system property ``rocketmq.broker.multiPathSplitter``."""


class Store(StoreFiles):
    """Files that a PATH shows of a store, with the settings in effect.

    A store root shows everything; one directory or file shows its own structure only, while settings are
    inferred from the whole store around it (``around``), as far as its place shows one.
    """

    def __init__(
        self,
        place: Place,
        roots: Mapping[PathKind, Root],
        given: GivenSettings,
        *,
        broker_version: str | None = None,
        timezone: str | None = None,
    ) -> None:
        base = place.root or (place.path.parent if place.is_file else place.path)
        own: dict[PathKind, Root] = {
            place.kind: Root((place.path,), place.depth, place.is_file, named=place.root is not None)
        }
        super().__init__(roots if place.kind is PathKind.STORE else own, base, place.root)
        self._opened, self._words = (place, dict(roots), given), (broker_version, timezone)
        self._made: dict[tuple[object, ...], Any] = {}
        self.place = place
        self.around: StoreFiles = self
        if place.kind is not PathKind.STORE:
            self.around = StoreFiles(_around(place, roots, own), base, place.root, self.listing)
        inference = SettingsInference(self.around)
        self.settings = Settings(given, inference, broker_version=broker_version, timezone=timezone)

    def __reduce__(self) -> tuple[Callable[..., Store], tuple[object, ...]]:
        """Pickle as the constructor's arguments; the files are listed again where it arrives."""
        return _opened_as, (self._opened, self._words)

    def afresh(self) -> Store:
        """Return the same store, opened in the same way, whose files are not listed yet."""
        return _opened_as(self._opened, self._words)

    def once(self, make: Callable[..., T], *words: Hashable) -> T:
        """Return what a function makes of the store and ``words``: once, for all that read it in a run."""
        key = make, *words
        if key not in self._made:
            self._made[key] = make(self, *words)
        made: T = self._made[key]
        return made

    def forget(self) -> None:
        """Have what `once` keeps made again: the files may have changed, or more of them can be read."""
        self._made.clear()

    @property
    def kind(self) -> PathKind:
        """Kind of the PATH."""
        return self.place.kind

    @property
    def log(self) -> FileQueue:
        """The commit log from which the shown files were made: its own, or the one beside it."""
        return self.around.commitlog if self.kind in {*QUEUE_KINDS, PathKind.INDEX} else self.commitlog

    @cached_property
    def own_log(self) -> FileQueue:
        """``log`` without the bytes of a file that grew over the next one, which is read in their place."""
        return self.log.without_excess(self.settings.commitlog_file_size)

    def require_log(self, purpose: str) -> None:
        """Raise `EnvironmentFailureError` if there is no commit log to do what ``purpose`` says."""
        if not len(self.commitlog):
            for feature in self.bars(Deed.READ_LOG):
                raise EnvironmentFailureError(f"{self.place.path}: {feature.refusal(Deed.READ_LOG, purpose)}")
            raise EnvironmentFailureError(
                f"{self.place.path}: no commit log there to {purpose}; give a store root, or its commitlog/,"
                " or its log's place with -p storePathCommitLog=DIR"
            )

    def bars(self, deed: Deed) -> tuple[Feature, ...]:
        """Return the parts in a layout with which something cannot be done, those that are not read first."""
        barring = [feature for feature in self.parts if deed not in feature.layout.can]
        return tuple(sorted(barring, key=lambda feature: feature.unread is None))

    def can(self, deed: Deed) -> bool:
        """Return whether every layout in the store lets a command do something."""
        return not self.bars(deed)

    def require(self, deed: Deed) -> None:
        """Raise `EnvironmentFailureError` if a layout in the store bars something."""
        for feature in self.bars(deed):
            raise EnvironmentFailureError(f"{self.base}: {feature.refusal(deed)}")

    @property
    def abort(self) -> Location | None:
        """Path of ``abort``, if it exists: the store was not stopped cleanly, or a broker is running."""
        return self._existing("abort")

    @property
    def is_end_torn_by_kill(self) -> bool:
        """Whether a torn end of the log is what a kill leaves: it cuts no file short."""
        if self.abort is None:
            return False
        segments = self.commitlog.segments
        return not segments or segments[-1].size_bytes >= self.settings.commitlog_file_size

    @property
    def lock(self) -> Location | None:
        """Path of ``lock``, if it exists; only `rmqtool.store.lock` may open it."""
        return self._existing("lock")

    @property
    def config(self) -> Location | None:
        """Directory of the broker's JSON files, if it exists."""
        return self._existing("config")

    @property
    def features(self) -> tuple[Feature, ...]:
        """Parts of the store that rmqtool names and does not examine, if they hold anything."""
        return tuple(feature for feature in self.parts if not feature.is_empty)

    @property
    def hidden(self) -> tuple[Feature, ...]:
        """Those of them whose content no command shows."""
        return tuple(feature for feature in self.features if not feature.is_shown)

    @cached_property
    def parts(self) -> tuple[Feature, ...]:
        """The same, and the empty ones."""
        log = self.around.roots.get(PathKind.COMMITLOG, Root(())).paths
        features = features_of(self.root, self.settings, log) if self.root is not None else ()
        with suppress(DeniedError):  # IO-DENIED reports it
            features = (*features, *split_log(self.around.commitlog, self.settings))
        return features

    @property
    def unread(self) -> tuple[Feature, ...]:
        """Parts that hold the log, or queues that consumers see, in a form that is not read."""
        return tuple(feature for feature in self.parts if feature.unread is not None)

    @property
    def queue_databases(self) -> tuple[Feature, ...]:
        """Databases of queues that exist, or should; files never take their place."""
        return tuple(part for part in self.parts if part.layout in DATABASES_OF_QUEUES)

    @property
    def confirm_offset(self) -> int | None:
        """Offset up to which replicas have confirmed the log, by the checkpoint.

        None without controller mode. Messages after it may be cut, and no consumer has seen them
        (``CommitLog#getConfirmOffset``, 5.0.0+). Raises `DeniedError` if the checkpoint may not be read.
        """
        controlled, file = self.settings.is_controlled, self.around.checkpoint
        if controlled is False or not (controlled or self.epochs is not None):
            return None
        head = b"" if file is None else file.read_at(0, CHECKPOINTS.size, [])
        return CHECKPOINTS.padded(head).confirm_phy_offset

    @cached_property
    def epoch_file(self) -> Location | None:
        """Place of the epochs of controller mode, be it there or not; None of a part of a store."""
        return None if self.root is None else _epoch_file(self.root, self._opened[2])

    @property
    def epochs(self) -> dict[int, int] | None:
        """Physical offset at which each epoch of controller mode begins, by the file or else its ``.bak``.

        None without either, empty if a broker loads neither. Raises `DeniedError` if one may not be read.
        """
        return self.read_epochs[-1][1] or {} if self.read_epochs else None

    @cached_property
    def read_epochs(self) -> list[tuple[Location, dict[int, int] | None]]:
        """The files of epochs that a start reads, each with what `epochs_of` says, until one is loaded."""
        read: list[tuple[Location, dict[int, int] | None]] = []
        file = self.epoch_file
        for place in () if file is None else (file, file.with_name(f"{file.name}.bak")):
            if place.is_there() and not (read and read[-1][1] != {}):
                read.append((place, _epochs_at(place)))
        return read

    @property
    def has_only_unread_log(self) -> bool:
        """Whether this is a store all of whose log is in a form that is not read."""
        return self.kind is PathKind.STORE and not len(self.commitlog) and not self.can(Deed.READ_LOG)

    @cached_property
    def evidence_roots(self) -> tuple[Path, ...]:
        """Real directories of this machine that nothing may be written into.

        Targets of links are read as parts of the store, so they count. To find them, every topic's directory
        is listed.
        """
        places = [path for root in self.roots.values() for path in root.paths]
        places.append(self.base)
        with suppress(DeniedError):  # its directories are among the roots; links among its files are unknown
            places += (segment.path.real().parent for segment in self.commitlog)
        with suppress(DeniedError):  # links that may not be listed are not read, either
            targets = [target for _, target in links_out(self, in_topics=True)]
            places += (target if target.is_directory() else target.parent for target in targets)
        paths = (place.local_path() for place in places)
        return tuple(sorted({path for path in paths if path is not None}))

    @cached_property
    def directories(self) -> tuple[str, ...]:
        """Paths that a copy must have, the store's own first, where links or settings put parts elsewhere.

        Empty where all of it lies in its own directory.
        """
        places = dict.fromkeys(path for root in self.roots.values() for path in root.paths)
        with suppress(DeniedError):  # IO-DENIED reports it
            places |= dict.fromkeys(file for file, _ in self.read_epochs)
        apart = [str(path) for path in places if not path.is_relative_to(self.base)]
        is_linked = _is_link(self.base)
        with suppress(DeniedError):  # IO-DENIED reports it
            is_linked = is_linked or any(links_out(self, in_topics=True))
        return (str(self.base), *apart) if apart or is_linked else ()

    def _existing(self, name: str) -> Location | None:
        if self.root is None:
            return None
        path = self.root / name
        return None if path.status() is None else path


def _opened_as(opened: _Opened, words: tuple[str | None, str | None]) -> Store:
    return Store(*opened, broker_version=words[0], timezone=words[1])


def open_store(
    path: Path | Location,
    *,
    kind: PathKind | str | None = None,
    broker_conf: Path | None = None,
    properties: Iterable[str] = (),
    broker_version: str | None = None,
    timezone: str | None = None,
) -> Store:
    """Open a store, or a part of one, for reading, as `rmqtool.open` does; ``kind`` is the type there."""
    given = given_settings(broker_conf, properties)
    setting = given.get("storePathCommitLog")
    place = find_place(
        location_of(path),
        None if kind is None else PathKind(kind),
        has_log=setting is not None and setting.note == OPTION_NOTE,
    )
    roots = {} if place.root is None else _roots_in(place.root, given)
    return Store(place, roots, given, broker_version=broker_version, timezone=timezone)


def _around(
    place: Place, roots: Mapping[PathKind, Root], own: Mapping[PathKind, Root]
) -> Mapping[PathKind, Root]:
    """Return the roots from which settings are inferred: with one file's siblings, if it lies among them."""
    root = roots.get(place.kind)
    among = root is not None and any(place.path.real().is_relative_to(path.real()) for path in root.paths)
    return roots if among else {**roots, **own}


def _roots_in(root: Location, given: Mapping[str, Setting]) -> dict[PathKind, Root]:
    roots = {kind: Root((root / DIRECTORY_NAMES[kind],)) for kind in (*QUEUE_KINDS, PathKind.INDEX)}
    log = commitlog_directories(root, given)
    enabled, member = (given[name].value if name in given else None for name in _OF_DLEDGER)
    entries = data_of(root, log, enabled=enabled, member=member)
    roots[PathKind.COMMITLOG] = Root(log if entries is None else (*log, entries))
    roots[PathKind.CHECKPOINT] = Root((root / "checkpoint",))
    roots[PathKind.CONFIG] = Root((root / CONFIG_DIRECTORY,))
    if entries is not None:
        roots[PathKind.ENTRY_INDEX] = Root((entries.parent / ENTRY_INDEX,), depth=0)
        roots[PathKind.CONFIG] = Root((root / CONFIG_DIRECTORY, entries.parent))
    return roots


def commitlog_directories(root: Location, given: Mapping[str, Setting]) -> tuple[Location, ...]:
    """Return the directories of the commit log, in the order of a broker, without repeats.

    Java: ``MultiPathMappedFileQueue#load`` (4.9.8, 5.3.3). Paths given with ``-p`` are used as they are.
    Those of a broker.conf belong to the machine that it comes from: where it names another store root, paths
    inside of that are taken inside ``root``, and paths elsewhere only count when ``root`` has no
    ``commitlog`` of its own. So a copy is never mixed with the live store beside it. Raises `UsageError` if a
    path is empty.
    """
    own = root / DIRECTORY_NAMES[PathKind.COMMITLOG]
    directories: list[tuple[str, Location]] = []
    for name in ("storePathCommitLog", "readOnlyCommitLogStorePaths"):
        setting = given.get(name)
        if setting is not None and setting.value:
            directories += _paths_of(setting, root, given, own)
        elif name == "storePathCommitLog":
            directories.append((own.name, own))
    return tuple(dict.fromkeys(in_broker_order(directories))) or (own,)


def _epoch_file(root: Location, given: Mapping[str, Setting]) -> Location:
    """Return the place of epochs, by the rules of the log (``MessageStoreConfig#getStorePathEpochFile``)."""
    setting = given.get("storePathEpochFile")
    paths = [] if setting is None or not setting.value else _paths_of(setting, root, given, root / EPOCHS)
    return paths[0][1] if paths else root / EPOCHS


def _epochs_at(place: Location) -> dict[int, int] | None:
    """Return what `epochs_of` says; of no regular file what becomes of a start, which waits for a FIFO."""
    try:
        return epochs_of(place.read_head(_LARGEST))
    except DeniedError:
        raise
    except EnvironmentFailureError:
        return {} if place.is_regular() or place.is_directory() else None


def _conf_root(root: Location, given: Mapping[str, Setting]) -> Location | None:
    setting = given.get("storePathRootDir")
    return root.elsewhere(str(setting.value)) if setting is not None and setting.value else None


def _paths_of(
    setting: Setting, root: Location, given: Mapping[str, Setting], own: Location
) -> list[tuple[str, Location]]:
    """Return the paths of a setting; ``own`` is what the root has of it where no setting names it."""
    texts = str(setting.value).split(_SPLITTER)
    if not all(texts):
        raise UsageError(f"{setting.name}={setting.value!r}: a path in the list is empty")
    paths, conf_root = [(text, root.elsewhere(text)) for text in texts], _conf_root(root, given)
    if setting.note == OPTION_NOTE or (conf_root is not None and _same(conf_root, root)):
        return paths
    moved = [(text, _moved(path, root, conf_root)) for text, path in paths]
    has_own = own.is_there()
    inside = [(text, path) for text, path in moved if path.is_relative_to(root)]
    if has_own and not inside and setting.name != "readOnlyCommitLogStorePaths":
        return [(setting.name, own)]
    return inside if has_own else moved


def _moved(path: Location, root: Location, conf_root: Location | None) -> Location:
    if conf_root is not None and path.is_relative_to(conf_root):
        return root / path.relative_to(conf_root)
    return path


def _same(location: Location, other: Location) -> bool:
    status, others = location.status(), other.status()
    return status is not None and others is not None and status.identity == others.identity is not None
