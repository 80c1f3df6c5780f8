"""``config``: a broker's properties file as brokers of a release, or of two, read it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import Severity
from rmqtool.io import location_of
from rmqtool.javacompat import parse_int
from rmqtool.retention.deletion import deletion_hours
from rmqtool.store.broker_conf import (
    CONCERNING,
    Origin,
    all_definitions,
    is_known_property,
    java_property_pairs,
    near_property,
)
from rmqtool.store.conf_values import Taken, taken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqtool.io import Location
    from rmqtool.releases import Release
    from rmqtool.store import Store
    from rmqtool.store.broker_conf import SettingValue

_ROOT, _PORT = "storePathRootDir", 10911
_SWITCHES = ("Enable", "Enabled")  # AuthConfig's and tieredstore.MessageStoreConfig's, too, are all boolean
_OF_THE_START = {"rmqAddressServerDomain", "rmqAddressServerSubGroup"}  # BrokerStartup#properties2SystemEnv
_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.INFO


@dataclass(frozen=True, slots=True)
class ConfigRemark:
    """A remark on a setting.

    Attributes:
        kind: ``refused`` (no broker starts), ``unknown`` (not read), ``ignored`` (the default counts),
            ``changed`` (another value counts), ``twice`` (of several the last counts), ``risk``, ``path``,
            ``store`` (the store was made otherwise) or ``release`` (another release does otherwise).
        severity: ``error``, ``warning`` or ``info``.
        name: Name of the setting; empty for the file as a whole.
        value: Its text in the file; None where the file does not name it.
        effective: Value that counts; None without one.
        message: One sentence.
    """

    type: ClassVar = "remark"
    kind: str
    severity: Severity
    name: str
    value: str | None
    effective: int | float | str | bool | None
    message: str


def remarks_on(
    data: bytes, releases: Sequence[Release], store: Store | None
) -> tuple[int, list[ConfigRemark]]:
    """Return how many settings a file names, and the remarks, the worst first.

    The last of ``releases`` is the broker's; the one before it, if there is one, is where it comes from.
    """
    try:
        pairs = list(java_property_pairs(data))
    except UsageError as failure:
        return 0, [ConfigRemark("refused", _ERROR, "", None, None, f"no broker starts with it: {failure}")]
    reading = _Reading(dict(pairs), releases[-1])
    remarks = [*_twice(pairs), *_names(reading), *_values(reading), *_risks(reading), *_paths(reading, store)]
    if store is not None:
        remarks += _against(reading, store)
    if len(releases) > 1:
        remarks += _changes(_Reading(reading.texts, releases[0]), reading)
    order = list(Severity)
    return len(reading.texts), sorted(remarks, key=lambda remark: (order.index(remark.severity), remark.name))


class _Reading:
    """Texts of a file as brokers of a release read them."""

    def __init__(self, texts: dict[str, str], release: Release) -> None:
        self.texts, self.release = texts, release
        self.taken: dict[str, Taken] = {}
        for name, text in texts.items():
            definition = all_definitions().get(name)
            if definition is not None and definition.is_known_to(release):
                self.taken[name] = taken(definition, text, release)

    def __getitem__(self, name: str) -> SettingValue:
        """Return the value that counts; None where the release does not have the setting."""
        if name in self.taken:
            return self.taken[name].value
        if name == "listenPort":  # set before the file is read (BrokerStartup#createBrokerController)
            return _PORT
        definition = all_definitions()[name]
        return definition.configured(self.release) if definition.is_known_to(self.release) else None

    def remark(self, kind: str, severity: Severity, name: str, message: str) -> ConfigRemark:
        """Return a remark on a setting that the file names, or whose default counts."""
        value = self[name] if name in all_definitions() else None
        return ConfigRemark(kind, severity, name, self.texts.get(name), value, message)


def _twice(pairs: list[tuple[str, str]]) -> Iterator[ConfigRemark]:
    texts = dict(pairs)
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            message = f"named {count} times: the last one counts"
            yield ConfigRemark("twice", _WARNING, name, texts[name], None, message)


def _names(reading: _Reading) -> Iterator[ConfigRemark]:
    """Yield the names that the broker does not read."""
    release = reading.release
    for name in reading.texts:
        definition = all_definitions().get(name)
        if definition is not None and not definition.is_known_to(release):
            since, until = definition.defaults[0][0], definition.until
            span = f"brokers before {until} do" if until else f"brokers from {since} on do"
            yield reading.remark(
                "unknown", _WARNING, name, f"a broker of {release.name} does not read it; {span}"
            )
        elif definition is None and name.startswith("rocketmq."):
            message = f"a property of the JVM, which no broker reads from the file: -D{name}=VALUE"
            yield reading.remark("unknown", _WARNING, name, message)
        elif definition is None and not is_known_property(name):
            yield reading.remark("unknown", _WARNING, name, f"no broker reads it{near_property(name)}")
        elif definition is None and not release.batch_queues and name not in _OF_THE_START:
            message = f"a broker of {release.name} does not read it; it is of 5.x"
            yield reading.remark("unknown", _WARNING, name, message)


def _values(reading: _Reading) -> Iterator[ConfigRemark]:
    """Yield the values that do not count as they are."""
    for name, result in reading.taken.items():
        if not result.is_read:
            default = "the default" if result.value is None else f"the default, {_shown(result.value)},"
            message = f"ignored, and {default} counts: {result.why}"
            yield reading.remark("ignored", _ERROR, name, message)
        elif result.why:
            message = f"{_shown(result.value)} counts: {result.why}"
            yield reading.remark("changed", _WARNING, name, message)
    for name, text in reading.texts.items():
        is_switch = name not in all_definitions() and is_known_property(name) and name.endswith(_SWITCHES)
        if is_switch and text.strip().lower() not in {"true", "false"}:
            yield reading.remark("changed", _WARNING, name, "false counts: all but true is false")


def _risks(reading: _Reading) -> Iterator[ConfigRemark]:
    """Yield the risks, each with the name to change and the Java method that does so."""
    risks = (*_risks_of_roles(reading), *_risks_of_deletion(reading), *_risks_of_records(reading))
    for name, severity, message, source in risks:
        yield reading.remark("risk", severity, name, f"{message} ({source})")


_Risk: TypeAlias = tuple[str, Severity, str, str]


def _risks_of_roles(reading: _Reading) -> Iterator[_Risk]:
    is_new = reading.release.keeps_ha_port
    starts = "BrokerStartup#" + ("buildBrokerController" if is_new else "createBrokerController")
    number, is_entries = reading["brokerId"], bool(reading["enableDLegerCommitLog"])
    is_controlled, role = bool(reading["enableControllerMode"]), reading["brokerRole"]
    if is_controlled and is_entries:
        message = "with enableDLegerCommitLog=true, too, the broker ends at its start"
        yield "enableControllerMode", _ERROR, message, starts
    if not is_controlled and isinstance(number, int):
        if role == "SLAVE" and number <= 0:
            yield "brokerId", _ERROR, "a slave needs one above 0, else the broker ends at its start", starts
        elif role != "SLAVE" and number > 0 and not is_entries:
            yield "brokerId", _ERROR, f"0 counts with {role}; a slave needs brokerRole=SLAVE", starts
    if "haListenPort" in reading.taken and not is_new:
        yield "haListenPort", _WARNING, "it does not count, listenPort and one does", starts


def _risks_of_deletion(reading: _Reading) -> Iterator[_Risk]:
    hours, source = deletion_hours(str(reading["deleteWhen"])), "UtilAll#isItTimeToDo"
    if None in hours:
        read = ", ".join(map(str, hours[: hours.index(None)]))
        but = f", but in the hour {read}" if read else ""
        message = f"no list of hours such as 04;16: nothing is ever deleted, not even from a full disk{but}"
        yield "deleteWhen", _ERROR, message, source
    elif not any(hour is not None and 0 <= hour < 24 for hour in hours):
        yield "deleteWhen", _WARNING, "no hour of a day: only a full disk makes room", source
    kept, is_forced = reading["fileReservedTime"], reading["cleanFileForciblyEnable"]
    if isinstance(kept, int) and kept <= 0:
        message = "every file but the last goes at the next hour of deleteWhen"
        yield "fileReservedTime", _ERROR, message, "MappedFileQueue#deleteExpiredFileByTime"
    most, forced = reading["diskMaxUsedSpaceRatio"], reading["diskSpaceCleanForciblyRatio"]
    source = "CleanCommitLogService#isSpaceToDelete"
    if is_forced and isinstance(most, int) and isinstance(forced, int) and most >= forced:
        message = f"above {forced} % files go whatever their age (cleanFileForciblyEnable), before {most} %"
        yield "diskMaxUsedSpaceRatio", _WARNING, message, source
    if not is_forced:
        message = "a disk that fills within fileReservedTime stops all writing, as no younger file goes"
        yield "cleanFileForciblyEnable", _WARNING, message, source


def _risks_of_records(reading: _Reading) -> Iterator[_Risk]:
    is_new = reading.release.batch_queues
    if reading["transientStorePoolEnable"]:
        is_slave = reading["brokerRole"] == "SLAVE" and not reading["enableControllerMode"]
        is_written_at_once = not is_new and reading["flushDiskType"] == "SYNC_FLUSH"
        if is_slave or is_written_at_once or reading["writeWithoutMmap"]:
            message = "it does not count on a slave, with writeWithoutMmap, nor (4.9) with SYNC_FLUSH"
            yield "transientStorePoolEnable", _NOTE, message, "isTransientStorePoolEnable"
        else:
            message = "messages wait in the process, not in the page cache: a kill loses what was confirmed"
            yield "transientStorePoolEnable", _WARNING, message, "DefaultMappedFile#appendMessagesInner"
    if not reading["checkCRCOnRecover"]:
        message = "a start takes records with damaged bodies for whole, and delivers them"
        yield "checkCRCOnRecover", _WARNING, message, "CommitLog#recoverAbnormally"
    if reading["enableLmq"] and not reading["enableMultiDispatch"]:
        message = "light queues get no message without enableMultiDispatch=true"
        new, old = "MultiDispatchUtils#isNeedHandleMultiDispatch", "ConsumeQueue#checkMultiDispatchQueue"
        yield "enableLmq", _ERROR, message, new if is_new else old


def _paths(reading: _Reading, store: Store | None) -> Iterator[ConfigRemark]:
    """Yield paths that Java does not read as a shell does, or that lead nowhere on this machine."""
    for name, text in reading.texts.items():
        definition = all_definitions().get(name)
        is_path = name.startswith("storePath") or name == "readOnlyCommitLogStorePaths"
        if definition is None or definition.kind != "String" or not is_path:
            continue
        for path in filter(None, text.strip().split(",")):
            if path.startswith("~") or "$" in path:
                message = f"{path}: Java expands neither ~ nor variables: it is the name of a directory"
                yield reading.remark("path", _ERROR, name, message)
            elif not path.startswith("/"):
                message = f"{path}: relative to the directory in which the broker is started"
                yield reading.remark("path", _WARNING, name, message)
            elif _there(path) is None:
                severity = _NOTE if store is None else _WARNING
                message = (
                    f"{path} is not there on this machine: a broker makes it, and begins with an empty one"
                )
                yield reading.remark("path", severity, name, message)


def _there(path: str) -> Location | None:
    """Return what is at a path of this machine, links followed; None if nothing is, or it cannot be read."""
    with suppress(EnvironmentFailureError, UsageError, OSError, ValueError):
        place = location_of(path)
        return place.real() if place.is_there() else None
    return None


def _against(reading: _Reading, store: Store) -> Iterator[ConfigRemark]:
    """Yield what differs from what the store was made with, as far as its files show it."""
    root = reading.taken[_ROOT].value if _ROOT in reading.taken else None
    if root is None:
        message = f"not named: a broker opens store/ in its user's home, not {store.base}"
        yield reading.remark("path", _WARNING, _ROOT, message)
    elif (place := _there(str(root))) is not None and place != store.base.real():
        yield reading.remark("path", _WARNING, _ROOT, f"it leads to another place than {store.base}")
    for name in CONCERNING:
        setting = store.settings[name]
        effective, made = reading[name], setting.value
        if setting.origin is not Origin.INFERRED or made is None or effective is None or effective == made:
            continue
        is_size = all_definitions()[name].is_size
        counts = f"{_shown(effective)} counts" + ("" if name in reading.texts else ", the default")
        harm = "a broker refuses or misreads its files" if is_size else "new files are made otherwise"
        message = f"{counts}, but the store was made with {_shown(made)}: {harm}"
        yield reading.remark("store", _ERROR if is_size else _WARNING, name, message)
    if not reading["enableDLegerCommitLog"] and any(
        feature.label.startswith("dledger-") for feature in store.features
    ):
        message = "the store has a DLedger log, which a broker opens with enableDLegerCommitLog=true alone"
        yield reading.remark("store", _ERROR, "enableDLegerCommitLog", message)
    if store.queue_databases and "ocks" not in str(reading["storeType"]):
        message = "the store has queues in RocksDB, which a broker opens with storeType=defaultRocksDB"
        yield reading.remark("store", _ERROR, "storeType", message)


def _changes(before: _Reading, after: _Reading) -> Iterator[ConfigRemark]:
    """Yield what another release does otherwise with the same file."""
    old, new = before.release, after.release
    for name, definition in all_definitions().items():
        is_named, is_known = name in after.texts, definition.is_known_to(old) and definition.is_known_to(new)
        if is_named and definition.is_known_to(old) and not definition.is_known_to(new):
            yield after.remark("release", _WARNING, name, f"{old.name} reads it, {new.name} does not")
        elif is_known and before[name] != after[name]:
            values = f"{_shown(before[name])} with {old.name}, {_shown(after[name])} with {new.name}"
            how = "the same text" if is_named else "not in the file, and the default changed"
            yield after.remark("release", _WARNING if is_named else _NOTE, name, f"{values}: {how}")


def _shown(value: SettingValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        "nothing"
        if value is None
        else repr(value)
        if value == "" or parse_int(str(value)) is None
        else str(value)
    )
