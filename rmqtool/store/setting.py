"""Broker setting: its definition, its value and where the value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.caches import packaged_text
from rmqtool.errors import UsageError
from rmqtool.javacompat import parse_int, parse_long, read_delay_levels
from rmqtool.releases import RELEASES, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SettingValue = int | float | str | bool | None


class Origin(StrEnum):
    """Source of a setting's value."""

    GIVEN = "given"
    INFERRED = "inferred"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in effect.

    Attributes:
        name: Name in the broker's properties.
        value: Its value; None where the broker has none, or where each record decides by itself.
        origin: Source of the value.
        note: Evidence for it, in a few words; may be empty.
        candidates: Possible values, where the files leave it open.
        doubt: Evidence against the value; empty if there is none.
    """

    name: str
    value: SettingValue
    origin: Origin
    note: str = ""
    candidates: tuple[str, ...] = ()
    doubt: str = ""


def _integer(name: str, text: str) -> int:
    value = parse_int(text)
    if value is None:
        raise UsageError(f"{name}={text!r}: a broker expects an integer of 32 bits there")
    return value


def _long(name: str, text: str) -> int:
    value = parse_long(text)
    if value is None:
        raise UsageError(f"{name}={text!r}: a broker expects an integer of 64 bits there")
    return value


def _double(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as failure:
        raise UsageError(f"{name}={text!r}: a broker expects a number there") from failure


def _size(name: str, text: str) -> int:
    value = _integer(name, text)
    if value <= 0:
        raise UsageError(f"{name}={text!r}: must be greater than 0")
    return value


def _boolean(_name: str, text: str) -> bool:
    """Read as ``Boolean#parseBoolean``: everything but ``true`` in any case is false."""
    return text.lower() == "true"


def _text(_name: str, text: str) -> str:
    return text.strip()


def _delay_levels(name: str, text: str) -> str:
    value = text.strip()
    if not read_delay_levels(value).valid:
        raise UsageError(f"{name}={text!r}: no list of delays such as '1s 5s 1m 2h'; a broker refuses it too")
    return value


@dataclass(frozen=True, slots=True)
class Definition:
    """How a setting is read, and its defaults.

    ``defaults`` has each default with the release from which it holds, oldest first; None for "none", for
    "each record decides", and for what the broker's machine decides. ``until`` is the first release without
    the setting. With ``is_size``, everything is misread if an assumed value is wrong. ``note`` says what
    replaces the default where files of a store are read.
    """

    name: str
    read: Callable[[str, str], SettingValue]
    defaults: tuple[tuple[str, SettingValue], ...]
    until: str = ""
    is_size: bool = False
    note: str = ""

    def default(self, release: Release) -> SettingValue:
        """Return the value for a store of a release without other evidence; None where ``note`` says why."""
        return None if self.note else self.configured(release)

    def configured(self, release: Release) -> SettingValue:
        """Return a broker's default in a release; in one without the setting, that of the nearest."""
        held = [value for since, value in self.defaults if _AGE[since] <= _AGE[release.name]]
        return held[-1] if held else self.defaults[0][1]

    def is_known_to(self, release: Release) -> bool:
        """Return whether a release has the setting."""
        age = _AGE[release.name]
        return _AGE[self.defaults[0][0]] <= age and not (self.until and _AGE[self.until] <= age)


_AGE = {name: age for age, name in enumerate(RELEASES)}
_ABSENT, _OF_THE_MACHINE, _NULL = "-", "?", "null"
_BY_RECORD = "decided by each record's own INNER_MULTI_QUEUE_OFFSET"
_SIZES = {
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
}
_READERS: dict[str, Callable[[str, str], SettingValue]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _long,
    "double": _double,
    "String": _text,
}
_OWN_READERS: dict[str, Callable[[str, str], SettingValue]] = {
    "messageDelayLevel": _delay_levels,
    **dict.fromkeys((*_SIZES, "maxMessageSize", "maxMsgsNumBatch"), _size),
}
# Without a default of their own here, and what stands for it.
_NOTES = {
    "storePathRootDir": "the PATH that was given",
    "storePathCommitLog": "commitlog/ in the store root",
    "enableMultiDispatch": _BY_RECORD,
    "enableLmq": _BY_RECORD,
}

CONCERNING = (
    "storePathRootDir",
    "storePathCommitLog",
    "readOnlyCommitLogStorePaths",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "mappedFileSizeConsumeQueueExt",
    "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
    "messageDelayLevel",
    "messageIndexEnable",
    "enableConsumeQueueExt",
    "enableMultiDispatch",
    "enableLmq",
    "enabledAppendPropCRC",
    "maxMessageSize",
    "maxMsgsNumBatch",
    "storeType",
    "enableDLegerCommitLog",
    "checkCRCOnRecover",
    "messageIndexSafe",
    "commitLogRecoverMaxNum",
    "checkCommitLogOffsetOnRecover",
    "enableAcceleratedRecovery",
    "writeWithoutMmap",
    "indexFileWriteEnable",
    "indexRocksDBEnable",
    "transRocksDBEnable",
    "timerRocksDBEnable",
)
"""Settings that decide what the files hold, or what the next start does with them."""


def _read_definitions() -> Iterator[Definition]:
    """Read the list that ``fixtures/make/settings.py`` makes: name, type, RELEASE=DEFAULT …, tab between."""
    for line in packaged_text("store/store_settings.txt").splitlines():
        name, kind, *steps = line.split("\t")
        read = _READERS[kind]
        held = [(since, text) for since, _, text in (step.partition("=") for step in steps)]
        until = held[-1][0] if held[-1][1] == _ABSENT else ""
        defaults = tuple(
            (since, None if text in {_OF_THE_MACHINE, _NULL} else read(name, text))
            for since, text in held
            if text != _ABSENT
        )
        own: Callable[[str, str], SettingValue] = _OWN_READERS.get(name, read)
        yield Definition(name, own, defaults, until, name in _SIZES, _NOTES.get(name, ""))


DEFINITIONS: dict[str, Definition] = {definition.name: definition for definition in _read_definitions()}
"""All settings of the store, by name (``MessageStoreConfig``, 4.9.8 to 5.5.1)."""
