"""Settings in effect for a store: given, inferred from the files, or the broker's defaults."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.javacompat import DelayLevels, read_delay_levels
from rmqtool.releases import Release, release_named
from rmqtool.store.broker_conf import (
    BROKER_VERSION,
    CONCERNING,
    DEFINITIONS,
    INDEX_NUMBERS,
    INDEX_TIMEZONE,
    GivenSettings,
    Origin,
    Setting,
    given_settings,
)
from rmqtool.store.broker_version import Signs
from rmqtool.store.geometry import Geometry, local_zone, zone_of_name
from rmqtool.store.inference import INFERENCES, SettingsInference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import tzinfo

T = TypeVar("T")

RECOVER_FILES = 10
"""commitLogRecoverMaxNum where it is not set, or not positive (``CommitLog#recoverNormally``, 5.4.0+)."""


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
        if name not in self._settled:
            inference = INFERENCES.get(name)
            if inference is not None and self._evidence is not None:
                for setting in inference(self._evidence, name, self._settled):
                    self._settled.setdefault(setting.name, setting)
            if name not in self._settled:
                definition, evidence = DEFINITIONS[name], self._evidence
                doubt = "" if evidence is None or name not in INDEX_NUMBERS else evidence.unexplained_index()
                value = definition.only_default
                if value is None:
                    value = definition.default(release_named(str(self[BROKER_VERSION].value)))
                self._settled[name] = Setting(name, value, Origin.DEFAULT, definition.note, doubt=doubt)
        return self._settled[name]

    def __iter__(self) -> Iterator[Setting]:
        """Yield the settings that concern a store of this release, and all others that were given."""
        release = self.release
        given = {name for name, setting in self._settled.items() if setting.origin is Origin.GIVEN}
        known = {name for name in CONCERNING if DEFINITIONS[name].is_known_to(release)}
        own = (BROKER_VERSION, INDEX_TIMEZONE)
        others = sorted(given.difference(CONCERNING, own))
        for name in (
            *(concerning for concerning in CONCERNING if concerning in known | given),
            *others,
            *own,
        ):
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
    def broker_name(self) -> str | None:
        """The broker's name; None where that is not given."""
        return self._given.broker_name

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
            for name, setting in self._settled.items():
                if setting.origin is not Origin.DEFAULT or (
                    name in DEFINITIONS and DEFINITIONS[name].is_size
                ):
                    made._settled[name] = setting
        made._settled[BROKER_VERSION] = Setting(BROKER_VERSION, release.name, Origin.GIVEN)
        return made

    def with_value(self, name: str, text: str) -> Settings:
        """Return the settings of the same broker with another value of one."""
        made = Settings(self._given, self._evidence)
        made._settled = {**self._settled, name: given_settings(None, [f"{name}={text}"])[name]}
        return made

    def used_sizes(self) -> list[Setting]:
        """Return the sizes of the structures that such a store has."""
        is_idle = {
            "mappedFileSizeConsumeQueueExt": not self.enable_consume_queue_ext,
            "mapperFileSizeBatchConsumeQueue": not self.batch_topics,
            "maxHashSlotNum": not self.message_index_enable,
            "maxIndexNum": not self.message_index_enable,
        }
        names = [name for name in CONCERNING if DEFINITIONS[name].is_size and not is_idle.get(name, False)]
        return list(map(self.__getitem__, names))

    def defaulted_sizes(self) -> list[Setting]:
        """Return the sizes that were assumed, of the structures that such a store has."""
        return [size for size in self.used_sizes() if size.origin is Origin.DEFAULT]

    def assumed_sizes(self, parts: Collection[str]) -> list[Setting]:
        """Return the sizes that were assumed of the files of some parts, and that no file contradicts."""
        return [size for size in self.defaulted_sizes() if size.part in parts and not size.doubt]

    def doubtful_sizes(self, parts: Collection[str]) -> list[Setting]:
        """Return the sizes that files contradict, of the log and of some parts that such a store has."""
        return [size for size in self.used_sizes() if size.doubt and size.part in {"commitlog", *parts}]

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
        """Release whose rules apply where one must be chosen: the likeliest that wrote the store last."""
        return release_named(str(self[BROKER_VERSION].value))

    @property
    def candidates(self) -> tuple[Release, ...]:
        """Releases that may have written the store last, oldest first; one if it is known."""
        names = self[BROKER_VERSION].candidates
        return tuple(map(release_named, names)) or (self.release,)

    def of_all_candidates(self, rule: Callable[[Release], T]) -> T | None:
        """Return what a rule says of every release that may have written the store; None if they differ."""
        first, *others = map(rule, self.candidates)
        return first if all(other == first for other in others) else None

    def worst_candidate(self, rule: Callable[[Release], T | None], harm: Callable[[T], int]) -> T | None:
        """Return what a rule says of the candidate that does most harm, the newest of equals.

        None where the rule says nothing of any: for what a user must know if any of them may do it.
        """
        said = [value for release in self.candidates if (value := rule(release)) is not None]
        return max(reversed(said), key=harm, default=None)

    def recover_window(self, release: Release) -> int | None:
        """Return how many of the log's files a start walks back at most; None without a limit."""
        if not release.recover_window:
            return None
        files = self["commitLogRecoverMaxNum"].value
        return files if isinstance(files, int) and files > 0 else RECOVER_FILES

    def rules_of(self, release: Release) -> Release:
        """Return a release's rules after settings (``CommitLog#borrowCheckMessageBuffer``, 5.5.1)."""
        records, kept = release.records, self["maxCheckMessageReuseBufferSize"]
        if not records.kept_array or kept.origin is not Origin.GIVEN or not isinstance(kept.value, int):
            return release
        return release._replace(records=records._replace(kept_array=max(kept.value, 0)))

    @cached_property
    def touched_by_5_4(self) -> bool | None:
        """Whether a 5.4.0+ broker was ever started on the store, whichever wrote it last.

        None where the files leave it open, and no version is given.
        """
        signs = Signs() if self._evidence is None else self._evidence.signs
        if signs.touched_by_5_4:
            return True
        return self.of_all_candidates(lambda release: release.tag_items)

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
