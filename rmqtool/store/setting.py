"""One broker setting: its definition, its value and where the value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rmqtool.errors import UsageError
from rmqtool.javacompat import parse_int, read_delay_levels

if TYPE_CHECKING:
    from collections.abc import Callable

SettingValue = int | str | bool | None


class Origin(StrEnum):
    """Where a setting's value comes from."""

    GIVEN = "given"
    INFERRED = "inferred"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in effect.

    Attributes:
        name: The broker's name of it.
        value: Its value; None where the broker has none, or where each record decides by itself.
        origin: Where it comes from.
        note: Why, in a few words; empty when that is plain.
        candidates: The values that it may have as well as not, where the files leave that open.
    """

    name: str
    value: SettingValue
    origin: Origin
    note: str = ""
    candidates: tuple[str, ...] = ()

    def to_json(self) -> dict[str, SettingValue | list[str]]:
        """Return the object that JSON reports show for the setting."""
        shown: dict[str, SettingValue | list[str]] = {"value": self.value, "origin": self.origin.value}
        return shown | {"candidates": list(self.candidates)} if self.candidates else shown


def _integer(name: str, text: str) -> int:
    value = parse_int(text)
    if value is None:
        raise UsageError(f"{name}={text!r}: a broker expects an integer of 32 bits there")
    return value


def _size(name: str, text: str) -> int:
    value = _integer(name, text)
    if value <= 0:
        raise UsageError(f"{name}={text!r}: must be greater than 0")
    return value


def _boolean(_name: str, text: str) -> bool:
    """Read as ``Boolean#parseBoolean``: whatever is not ``true`` in some case is false."""
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
    """How a setting is read and what it is by default.

    Attributes:
        name: The broker's name of it.
        read: Reads the text given for it; takes name and text, raises UsageError.
        default: The broker's default; None for "none", or for "each record decides".
        is_size: Whether a defaulted value is worth a warning, because everything is misread if it is wrong.
        note: What the default means when it is not plain.
    """

    name: str
    read: Callable[[str, str], SettingValue]
    default: SettingValue
    is_size: bool = False
    note: str = ""


_BY_RECORD = "decided by each record's own INNER_MULTI_QUEUE_OFFSET"

# Defaults of MessageStoreConfig, the same in every release that has the setting.
DEFINITIONS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition("storePathRootDir", _text, None, note="the PATH that was given"),
        Definition("storePathCommitLog", _text, None, note="commitlog/ in the store root"),
        Definition("readOnlyCommitLogStorePaths", _text, None),
        Definition("mappedFileSizeCommitLog", _size, 1024 * 1024 * 1024, is_size=True),
        Definition("mappedFileSizeConsumeQueue", _size, 6_000_000, is_size=True),
        Definition("mappedFileSizeConsumeQueueExt", _size, 48 * 1024 * 1024, is_size=True),
        Definition("mapperFileSizeBatchConsumeQueue", _size, 13_800_000, is_size=True),
        Definition("maxHashSlotNum", _size, 5_000_000, is_size=True),
        Definition("maxIndexNum", _size, 20_000_000, is_size=True),
        Definition(
            "messageDelayLevel", _delay_levels, "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
        ),
        Definition("messageIndexEnable", _boolean, True),
        Definition("enableConsumeQueueExt", _boolean, False),
        Definition("enableMultiDispatch", _boolean, None, note=_BY_RECORD),
        Definition("enableLmq", _boolean, None, note=_BY_RECORD),
        Definition("enabledAppendPropCRC", _boolean, False),
        Definition("maxMessageSize", _size, 4 * 1024 * 1024),
        Definition("maxMsgsNumBatch", _size, 64),
        Definition("storeType", _text, "default"),
        Definition("enableDLegerCommitLog", _boolean, False),
        Definition("checkCRCOnRecover", _boolean, True),
        Definition("messageIndexSafe", _boolean, False),
        Definition("commitLogRecoverMaxNum", _integer, 10),
        Definition("checkCommitLogOffsetOnRecover", _boolean, False),
        Definition("enableAcceleratedRecovery", _boolean, False),
        Definition("writeWithoutMmap", _boolean, False),
        Definition("indexRocksDBEnable", _boolean, False),
        Definition("transRocksDBEnable", _boolean, False),
    )
}
"""Broker properties that concern the store, by name."""
