"""Settings in effect for a store: given, inferred from the files, or the broker's defaults."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.javacompat import DelayLevels, read_delay_levels
from rmqtool.releases import DEFAULT, RELEASES, Release, release_named
from rmqtool.store.broker_version import Signs, infer_version
from rmqtool.store.geometry import Geometry, local_zone, zone_of_name
from rmqtool.store.kinds import PathKind
from rmqtool.store.setting import CONCERNING, DEFINITIONS, Origin, Setting, SettingValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from rmqtool.store.inference import Inferred, SettingsInference
    from rmqtool.store.setting import GivenSettings

BROKER_VERSION = "brokerVersion"
INDEX_TIMEZONE = "indexTimezone"

_QUEUE_SIZES = {
    "mappedFileSizeConsumeQueue": PathKind.CONSUMEQUEUE,
    "mappedFileSizeConsumeQueueExt": PathKind.CONSUMEQUEUE_EXT,
    "mapperFileSizeBatchConsumeQueue": PathKind.BATCHCONSUMEQUEUE,
}


class Settings:
    """Settings of one store, each inferred on first use; pickling infers them all.

    Without ``evidence``, nothing is inferred. ``broker_version`` (a release or a line of them) and
    ``timezone`` (of the index files' names) are the user's; `UsageError` if there is no such version or zone.
    """

    def __init__(
        self,
        given: GivenSettings,
        evidence: SettingsInference | None,
        *,
        broker_version: str | None = None,
        timezone: str | None = None,
    ) -> None:
        self._given = given
        self._settled = dict(given)
        self._evidence: SettingsInference | None = evidence
        if broker_version is not None:
            name = release_named(broker_version).name
            note = "" if name == broker_version else f"as {broker_version}"
            self._settled[BROKER_VERSION] = Setting(BROKER_VERSION, name, Origin.GIVEN, note)
        if timezone is not None:
            zone_of_name(timezone)
            self._settled[INDEX_TIMEZONE] = Setting(INDEX_TIMEZONE, timezone, Origin.GIVEN)

    def __getitem__(self, name: str) -> Setting:
        setting = self._settled.get(name)
        if setting is None:
            setting = self._settled[name] = self._infer(name) or self._default(name)
        return setting

    def __iter__(self) -> Iterator[Setting]:
        """Yield the settings that concern a store of this release, and all others that were given."""
        release = self.release
        given = {name for name, setting in self._settled.items() if setting.origin is Origin.GIVEN}
        known = {name for name in CONCERNING if DEFINITIONS[name].is_known_to(release)}
        own = (BROKER_VERSION, INDEX_TIMEZONE)
        others = sorted(given.difference(CONCERNING, own))
        for name in (*(one for one in CONCERNING if one in known | given), *others, *own):
            yield self[name]

    def __getstate__(self) -> tuple[GivenSettings, dict[str, Setting], frozenset[str], bool | None]:
        settled = {setting.name: setting for setting in self}
        return self._given, settled, self.batch_topics, self.touched_by_5_4

    def __setstate__(
        self, state: tuple[GivenSettings, dict[str, Setting], frozenset[str], bool | None]
    ) -> None:
        self._given, self._settled = state[:2]
        self._evidence = None
        self.__dict__["batch_topics"] = state[2]
        self.__dict__["touched_by_5_4"] = state[3]

    @property
    def unknown_names(self) -> tuple[str, ...]:
        """Sentences on names in the broker's file that no broker reads."""
        return self._given.unknown_names

    @property
    def is_controlled(self) -> bool | None:
        """Whether the broker runs in controller mode; None where that is not given."""
        return self._given.is_controlled

    @property
    def has_conf(self) -> bool:
        """Whether the broker's own file is given: all that it does not name has the broker's default."""
        return self._given.conf is not None

    def of_broker(self, release: Release) -> Settings:
        """Return the settings of a broker of a release that is started on the store.

        They are those of its file, if that was given, and the release's defaults for the rest: the broker
        does not infer. Without the file, values inferred from the store's files are taken for its content.
        """
        made = Settings(self._given, self._evidence)
        if INDEX_TIMEZONE in self._settled:
            made._settled[INDEX_TIMEZONE] = self._settled[INDEX_TIMEZONE]
        if self._given.conf is not None:
            note = f"the default of {release.name}: {self._given.conf} does not name it"
            for name, definition in DEFINITIONS.items():
                value = definition.configured(release)
                made._settled.setdefault(name, Setting(name, value, Origin.DEFAULT, note))
        else:
            for name, one in self._settled.items():
                if one.origin is not Origin.DEFAULT or (name in DEFINITIONS and DEFINITIONS[name].is_size):
                    made._settled[name] = one
        made._settled[BROKER_VERSION] = Setting(BROKER_VERSION, release.name, Origin.GIVEN)
        return made

    def defaulted_sizes(self) -> list[Setting]:
        """Return the sizes that were assumed, of the structures that such a store has."""
        return [one for one in self._used_sizes if one.origin is Origin.DEFAULT]

    def doubtful_sizes(self) -> list[Setting]:
        """Return the sizes that files contradict, of the structures that such a store has."""
        return [one for one in self._used_sizes if one.doubt]

    @property
    def _used_sizes(self) -> list[Setting]:
        is_idle = {
            "mappedFileSizeConsumeQueueExt": not self.enable_consume_queue_ext,
            "mapperFileSizeBatchConsumeQueue": not self.batch_topics,
            "maxHashSlotNum": not self.message_index_enable,
            "maxIndexNum": not self.message_index_enable,
        }
        return [self[one] for one in CONCERNING if DEFINITIONS[one].is_size and not is_idle.get(one, False)]

    @property
    def commitlog_file_size(self) -> int:
        """Bytes of a commit log file."""
        return self._int("mappedFileSizeCommitLog")

    @property
    def consumequeue_file_size(self) -> int:
        """Bytes of a consume queue file, a multiple of 20.

        Java: ``MessageStoreConfig#getMappedFileSizeConsumeQueue`` (4.9.8, 5.3.3) rounds up.
        """
        return -(-self._int("mappedFileSizeConsumeQueue") // UNIT_SIZE) * UNIT_SIZE

    @property
    def consumequeue_ext_file_size(self) -> int:
        """Bytes of a consume queue ext file."""
        return self._int("mappedFileSizeConsumeQueueExt")

    @property
    def batchconsumequeue_file_size(self) -> int:
        """Bytes of a batch consume queue file, not rounded."""
        return self._int("mapperFileSizeBatchConsumeQueue")

    @property
    def index_geometry(self) -> Geometry:
        """Slots and items of the index files."""
        return Geometry(self._int("maxHashSlotNum"), self._int("maxIndexNum"))

    @cached_property
    def delay_levels(self) -> DelayLevels:
        """Delay table of ``messageDelayLevel``."""
        return read_delay_levels(str(self["messageDelayLevel"].value))

    @property
    def max_msgs_num_batch(self) -> int:
        """Most hits that a broker returns for a key (Java: ``IndexService#queryOffset``, 4.9.8, 5.3.3)."""
        return self._int("maxMsgsNumBatch")

    @property
    def message_index_enable(self) -> bool:
        """Whether an index is built."""
        return bool(self["messageIndexEnable"].value)

    @property
    def enable_consume_queue_ext(self) -> bool:
        """Whether units hold addresses of ext units."""
        return bool(self["enableConsumeQueueExt"].value)

    @property
    def enable_multi_dispatch(self) -> bool | None:
        """Whether records are dispatched to further queues; None: as each record's properties say."""
        return self._bool_or_none("enableMultiDispatch")

    @property
    def enable_lmq(self) -> bool | None:
        """Whether ``%LMQ%`` queues have the id 0; None: as each record's properties say."""
        return self._bool_or_none("enableLmq")

    @property
    def release(self) -> Release:
        """Release whose rules apply: of the broker that wrote the store last."""
        return release_named(str(self[BROKER_VERSION].value))

    @property
    def candidates(self) -> tuple[Release, ...]:
        """Releases that may have written the store last, oldest first; one if it is known."""
        names = self[BROKER_VERSION].candidates
        return tuple(map(release_named, names)) or (self.release,)

    def rules_of(self, release: Release) -> Release:
        """Return a release's rules after settings (``CommitLog#borrowCheckMessageBuffer``, 5.5.1)."""
        records, kept = release.records, self["maxCheckMessageReuseBufferSize"]
        if not records.kept_array or kept.origin is not Origin.GIVEN or not isinstance(kept.value, int):
            return release
        return replace(release, records=replace(records, kept_array=max(kept.value, 0)))

    @cached_property
    def touched_by_5_4(self) -> bool | None:
        """Whether a 5.4.0+ broker was ever started on the store, whichever wrote it last.

        None where that is unknown: files without a store root around them, and no version given.
        """
        signs = Signs() if self._evidence is None else self._evidence.signs
        if signs.touched_by_5_4:
            return True
        version = self[BROKER_VERSION]
        return None if version.origin is Origin.DEFAULT else self.release.tag_items

    @property
    def index_timezone(self) -> tzinfo:
        """Zone in which index files are named."""
        setting = self[INDEX_TIMEZONE]
        return local_zone() if setting.value is None else zone_of_name(str(setting.value))

    @cached_property
    def batch_topics(self) -> frozenset[str]:
        """Topics whose queues are batch queues (5.0.0+)."""
        return frozenset() if self._evidence is None else self._evidence.batch_topics()

    def _int(self, name: str) -> int:
        value = self[name].value
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a number: {value!r}")
        return value

    def _bool_or_none(self, name: str) -> bool | None:
        value = self[name].value
        return None if value is None else bool(value)

    def _infer(self, name: str) -> Setting | None:
        evidence = self._evidence
        if evidence is None:
            return None
        if name in _QUEUE_SIZES:
            return _inferred_size(name, evidence.queue_file_size(_QUEUE_SIZES[name]))
        if name in {"maxHashSlotNum", "maxIndexNum"}:
            return self._infer_geometry(name, evidence)
        inference = _INFERENCES.get(name)
        return inference(evidence) if inference else None

    def _infer_geometry(self, name: str, evidence: SettingsInference) -> Setting | None:
        """Infer both numbers of the index at once; a given one decides the other."""
        slots, items = self._given_int("maxHashSlotNum"), self._given_int("maxIndexNum")
        found = evidence.geometry(slots, items)
        if found is None:
            doubt = evidence.unexplained_index()
            return replace(self._default(name), doubt=doubt) if doubt else None
        geometry, proven, doubt = found
        origin = Origin.INFERRED if proven else Origin.DEFAULT
        note = (
            "contents of the index files"
            if proven
            else "default ratio of the file size; the contents prove none"
        )
        for key, value in (("maxHashSlotNum", geometry.slots), ("maxIndexNum", geometry.items)):
            self._settled.setdefault(key, Setting(key, value, origin, note, doubt=doubt))
        return self._settled[name]

    def _default(self, name: str) -> Setting:
        definition = DEFINITIONS[name]
        return Setting(name, definition.default(self.release), Origin.DEFAULT, definition.note)

    def _given_int(self, name: str) -> int | None:
        setting = self._settled.get(name)
        return setting.value if setting is not None and isinstance(setting.value, int) else None


def _inferred(name: str, value: SettingValue, note: str) -> Setting | None:
    return None if value is None else Setting(name, value, Origin.INFERRED, note)


def _inferred_size(name: str, found: Inferred[int]) -> Setting | None:
    if found.value is None:
        return None
    note = "sizes and names of the files"
    return Setting(name, found.value, Origin.INFERRED, note, doubt=found.doubt)


def _infer_version(evidence: SettingsInference) -> Setting:
    found = infer_version(evidence.signs)
    if found is None:
        note = "no evidence in the store"
        return Setting(BROKER_VERSION, DEFAULT.name, Origin.DEFAULT, note, tuple(RELEASES))
    return Setting(BROKER_VERSION, found.release.name, Origin.INFERRED, found.note, found.candidates)


def _infer_zone(evidence: SettingsInference) -> Setting:
    found = evidence.index_zone()
    if found is None:
        return Setting(INDEX_TIMEZONE, None, Origin.DEFAULT, "this machine's zone")
    return Setting(
        INDEX_TIMEZONE, str(found), Origin.INFERRED, "names of the index files against their begin times"
    )


def _infer_light_queues(name: str) -> Callable[[SettingsInference], Setting | None]:
    return lambda evidence: _inferred(name, evidence.has_light_queues() or None, "%LMQ% directories")


_INFERENCES: dict[str, Callable[[SettingsInference], Setting | None]] = {
    "mappedFileSizeCommitLog": lambda evidence: _inferred_size(
        "mappedFileSizeCommitLog", evidence.commitlog_file_size()
    ),
    "enableConsumeQueueExt": lambda evidence: _inferred(
        "enableConsumeQueueExt", evidence.has_ext_queues(), "consumequeue_ext/"
    ),
    "enableMultiDispatch": _infer_light_queues("enableMultiDispatch"),
    "enableLmq": _infer_light_queues("enableLmq"),
    BROKER_VERSION: _infer_version,
    INDEX_TIMEZONE: _infer_zone,
}
