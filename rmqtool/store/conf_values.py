"""Values of a broker's file as the broker reads them: what it ignores, rounds, or replaces.

Java: ``MixAll#properties2Object`` drops every exception, so that a value that cannot be read leaves the
default (4.9.8 to 5.5.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqtool.errors import UsageError
from rmqtool.formats.consumequeue import UNIT_SIZE
from rmqtool.javacompat import wrap_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqtool.releases import Release
    from rmqtool.store.broker_conf import Definition, SettingValue

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_TYPES = {
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "double": "a number",
    "float": "a number",
}
_WORDS = {
    "brokerRole": ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),  # BrokerRole#valueOf, in this very case
    "flushDiskType": ("SYNC_FLUSH", "ASYNC_FLUSH"),  # FlushDiskType#valueOf
    "defaultMessageRequestMode": ("PULL", "POP"),  # MessageRequestMode#valueOf (5.x)
}
_PRECISIONS = (1000, 500, 200, 100)


class Taken(NamedTuple):
    """A text as a broker reads it.

    Attributes:
        value: In effect.
        is_read: Whether the text was read at all; else the value is the default.
        why: Why the value is not what the text says, the end of a sentence; empty if it is.
    """

    value: SettingValue
    is_read: bool = True
    why: str = ""


def taken(definition: Definition, text: str, release: Release) -> Taken:
    """Return what a broker of a release makes of the text of a setting."""
    name, trimmed = definition.name, text.strip(_JAVA_BLANKS)
    default = definition.configured(release)
    if definition.kind == "boolean":
        why = "all but true is false" + (", and a blank follows it" if trimmed != text else "")
        return Taken(text.lower() == "true", why="" if text.lower() in {"true", "false"} else why)
    if definition.kind == "String":
        meant = trimmed if release.trims_conf else text
        words = _WORDS.get(name)
        if words is not None and meant not in words:
            return Taken(default, is_read=False, why=f"it is none of {', '.join(words)}")
        return Taken(meant)
    value = _number(definition, text)
    if value is None:
        blank = "" if trimmed == text else ", because of the blank after it"
        return Taken(default, is_read=False, why=f"it is not {_TYPES[definition.kind]}{blank}")
    if name not in _TURNED or not isinstance(value, int):
        return Taken(value)
    result, rule = _TURNED[name](value)
    return Taken(result, why="" if result == value else rule)


def held(name: str, value: int) -> int:
    """Return the number that counts, by the rules of the broker's getters and setters."""
    return _TURNED[name](value)[0] if name in _TURNED else value


def _number(definition: Definition, text: str) -> int | float | None:
    try:
        value = definition.parse(text)
    except UsageError:
        return None
    return value if isinstance(value, int | float) and "_" not in text else None


def _between(least: int, most: int) -> Callable[[int], tuple[int, str]]:
    return lambda value: (min(max(value, least), most), f"it is held within {least} and {most}")


def _whole_units(value: int) -> tuple[int, str]:
    return wrap_int(
        -(-value // UNIT_SIZE) * UNIT_SIZE
    ), f"it is rounded up to whole units of {UNIT_SIZE} bytes"


def _precision(value: int) -> tuple[int, str]:
    chosen = next((precision for precision in _PRECISIONS if value >= precision), _PRECISIONS[-1])
    return chosen, f"it is rounded down to one of {', '.join(map(str, reversed(_PRECISIONS)))}"


_TURNED: Mapping[str, Callable[[int], tuple[int, str]]] = {
    "diskMaxUsedSpaceRatio": _between(10, 95),  # MessageStoreConfig#getDiskMaxUsedSpaceRatio
    "mappedFileSizeConsumeQueue": _whole_units,  # MessageStoreConfig#getMappedFileSizeConsumeQueue
    "timerPrecisionMs": _precision,  # MessageStoreConfig#setTimerPrecisionMs (5.x)
    "diskSpaceCleanForciblyRatio": _between(
        30, 85
    ),  # CleanCommitLogService#getDiskSpaceCleanForciblyRatio (5.x)
    "diskSpaceWarningLevelRatio": _between(
        35, 90
    ),  # CleanCommitLogService#getDiskSpaceWarningLevelRatio (5.x)
}
"""Rules of getters and setters that turn a number into another."""
