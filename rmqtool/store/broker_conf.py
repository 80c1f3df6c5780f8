"""Settings of a broker: their definitions, and those that the user gives, by ``broker.conf`` or singly."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.findings import meant
from rmqtool.io import location_of
from rmqtool.javacompat import parse_int, parse_long, read_delay_levels
from rmqtool.releases import NEWEST, RELEASES, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


SettingValue = int | float | str | bool | None

INDEX_NUMBERS = ("maxHashSlotNum", "maxIndexNum")
BROKER_VERSION, INDEX_TIMEZONE = "brokerVersion", "indexTimezone"
"""Names of what no broker's file says."""


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

    @property
    def part(self) -> str:
        """Return the part of a store whose files a size is of: ``commitlog``, ``consumequeue``, ``index``."""
        parts = {"mappedFileSizeCommitLog": "commitlog"} | dict.fromkeys(INDEX_NUMBERS, "index")
        return parts.get(self.name, "consumequeue")

    @property
    def assumption(self) -> str:
        """Return that the value is assumed, and how to give the broker's."""
        return (
            f"{self.name} cannot be inferred from the files: {self.value} assumed; pass the broker's own with"
            f" -c broker.conf or -p {self.name}=N"
        )


def conf_text(value: object) -> str:
    """Return a value as broker.conf has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reader(parse: Callable[[str], Any], wanted: str) -> Callable[[str, str], Any]:
    def read(name: str, text: str) -> object:
        with suppress(ValueError):
            if (value := parse(text)) is not None:
                return value
        raise UsageError(f"{name}={text!r}: a broker expects {wanted} there")

    return read


_integer = _reader(parse_int, "an integer of 32 bits")
_long = _reader(parse_long, "an integer of 64 bits")
_double = _reader(float, "a number")


def _size(name: str, text: str) -> int:
    value: int = _integer(name, text)
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


class Definition(NamedTuple):
    """Reader of a setting, and its defaults.

    ``defaults`` has each default with the release from which it holds, oldest first; None for "none", for
    "each record decides", and for what the broker's machine decides. ``until`` is the first release without
    the setting. With ``is_size``, everything is misread if an assumed value is wrong. ``note`` says what
    replaces the default where files of a store are read. ``kind`` is the Java type.
    """

    name: str
    read: Callable[[str, str], SettingValue]
    defaults: tuple[tuple[str, SettingValue], ...]
    until: str = ""
    is_size: bool = False
    note: str = ""
    kind: str = ""

    def parse(self, text: str) -> SettingValue:
        """Return the value of a text by its Java type alone; UsageError where Java throws."""
        return _READERS[self.kind](self.name, text)

    @property
    def only_default(self) -> SettingValue:
        """The default where all releases have the same, and no evidence is needed; else None."""
        return self.defaults[0][1] if len(self.defaults) == 1 and not self.note else None

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
# Without a default of their own here, and the substitute.
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


def _packaged_lines(name: str) -> list[str]:
    return (get_data(__package__, name) or b"").decode().splitlines()


def _read_definitions(file: str) -> Iterator[Definition]:
    """Read a list that ``fixtures/make/settings.py`` makes: name, type, RELEASE=DEFAULT …, tab between."""
    for line in _packaged_lines(file):
        if "\t" not in line:
            continue
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
        yield Definition(name, own, defaults, until, name in _SIZES, _NOTES.get(name, ""), kind)


DEFINITIONS = {definition.name: definition for definition in _read_definitions("store_settings.txt")}
"""All settings of the store, by name (``MessageStoreConfig``, 4.9.8 to 5.5.1)."""


@cache
def all_definitions() -> dict[str, Definition]:
    """Return those of ``BrokerConfig``, ``NettyServerConfig`` and ``NettyClientConfig``, too."""
    return {one.name: one for one in _read_definitions("broker_properties.txt")} | DEFINITIONS


_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = re.compile(r"[0-9A-Fa-f]{4}")


def parse_java_properties(data: bytes) -> dict[str, str]:
    r"""Return a properties file's values by name, trimmed only before the value, as Java does.

    Raises `UsageError` for a ``\u`` escape without four hexadecimal digits: Java refuses the whole file.
    """
    return dict(java_property_pairs(data))


def java_property_pairs(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield names and values as they come: of a name that comes again, Java keeps the last value."""
    for line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split(line)
        yield _unescape(key), _unescape(value)


def _logical_lines(text: str) -> list[str]:
    """Join continued lines, drop blank lines and comments."""
    lines: list[str] = []
    pending: str | None = None
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = (pending or "") + line
        # A continued line that is blank ends the logical line; one that starts with '#' is not a comment.
        pending = joined[:-1] if line and _ends_in_continuation(line) else None
        if pending is None and joined:
            lines.append(joined)
    if pending:
        lines.append(pending)
    return lines


def _ends_in_continuation(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Cut a logical line at its first unescaped ``=``, ``:`` or blank, and drop one separator with blanks."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    pieces = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char == "u":
                digits = text[position : position + 4]
                if not _UNICODE_DIGITS.fullmatch(digits):
                    raise UsageError(
                        f"malformed escape '\\u{digits}' in a properties file; a broker refuses it too"
                    )
                char = chr(int(digits, 16))
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        pieces.append(char)
    return _join_surrogates("".join(pieces))


def _join_surrogates(text: str) -> str:
    """Make one character of two escaped surrogates, as Java's UTF-16 does by itself."""
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


CONF_NOTE = "broker.conf"
OPTION_NOTE = "-p"

_CONTROLLED = "enableControllerMode"  # of BrokerConfig
_LARGEST_CONF = 1 << 20


class GivenSettings(dict[str, Setting]):
    """Settings of origin "given" by name.

    Where ``conf``, the broker's properties file, is given, a broker has its release's defaults for everything
    else. ``is_controlled`` and ``broker_name`` are None where they are not named.
    """

    conf: Path | None = None
    unknown_names: tuple[str, ...] = ()
    is_controlled: bool | None = None
    broker_name: str | None = None


def given_settings(broker_conf: Path | None, properties: Iterable[str]) -> GivenSettings:
    """Read the given settings; single ``NAME=VALUE`` texts win over the file.

    Where a broker would silently ignore the file's value, the setting is absent, as it is for the broker.
    Raises `UsageError` if the file cannot be used, or a property has no ``=``, an unknown name or a senseless
    value.
    """
    single = dict(_name_and_value(text) for text in properties)
    given, in_file = GivenSettings(), {}
    if broker_conf is not None:
        in_file = read_broker_conf(broker_conf)
        given.conf = broker_conf
        given.unknown_names = tuple(
            f"{broker_conf}: no broker reads {name}{near_property(name)}"
            for name in in_file
            if not is_known_property(name)
        )
        for name, text in in_file.items():
            if name in DEFINITIONS and name not in single and not _is_ignored(name, text):
                given[name] = _read(name, text, CONF_NOTE)
    for name, text in single.items():
        if name in DEFINITIONS:
            given[name] = _read(name, text.strip(), OPTION_NOTE)
    every = {**in_file, **single}
    if (controlled := every.get(_CONTROLLED)) is not None:
        given.is_controlled = controlled.strip().lower() == "true"
    given.broker_name = every.get("brokerName")
    return given


def read_broker_conf(path: Path) -> dict[str, str]:
    """Read a properties file; `UsageError` if unreadable, larger than 1 MiB, or refused by Java."""
    try:
        return parse_java_properties(read_properties_file(path))
    except EnvironmentFailureError as failure:
        raise UsageError(str(failure)) from failure
    except UsageError as failure:
        raise UsageError(f"{path}: {failure}") from failure


def read_properties_file(path: Path) -> bytes:
    """Return a file's bytes; UsageError for more than 1 MiB, EnvironmentFailureError if it cannot be read."""
    data = location_of(path).read_head(_LARGEST_CONF + 1)
    if len(data) > _LARGEST_CONF:
        raise UsageError("larger than 1 MiB, so it is not a broker's properties file")
    return data


@cache
def known_broker_properties() -> frozenset[str]:
    """Return every property that a broker of 4.9.8 to 5.5.1 reads from its file.

    Java: the setters of BrokerConfig, BrokerIdentity, MessageStoreConfig (store and tieredstore),
    NettyServerConfig, NettyClientConfig and AuthConfig, by which ``MixAll#properties2Object`` goes, and the
    two names that ``BrokerStartup#properties2SystemEnv`` reads. ``fixtures/make/settings.py`` makes the list.
    """
    return frozenset(line.partition("\t")[0] for line in _packaged_lines("broker_properties.txt"))


def _name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    name = name.strip()
    if not separator:
        raise UsageError(f"-p {text!r}: expected NAME=VALUE")
    if not is_known_property(name):
        raise UsageError(f"-p {text!r}: no broker has a property {name!r}{near_property(name)}")
    return name, value


def is_known_property(name: str) -> bool:
    """Whether any broker reads a property of that name."""
    return name in DEFINITIONS or name in known_broker_properties()


def near_property(name: str) -> str:
    """Suggest the nearest known name; nothing if none is near."""
    hint = meant(name, sorted(known_broker_properties() | DEFINITIONS.keys()), "")
    return hint and f"; {hint}"


def _is_ignored(name: str, text: str) -> bool:
    """Whether Java cannot read a value of a properties file.

    ``MixAll#properties2Object`` (4.9.8 to 5.5.1) drops the exception, so the broker runs with its default. A
    setting that decides how files are read is ignored only for blanks around a number: then the files prove
    more than the text. Anything else may be meant, and is refused.
    """
    definition = DEFINITIONS[name]
    if name in CONCERNING:
        is_integer = type(definition.default(NEWEST)) is int
        return is_integer and text != text.strip() and parse_int(text.strip()) is not None
    try:
        definition.read(name, text)
    except UsageError:
        return True
    return False


def _read(name: str, text: str, source: str) -> Setting:
    return Setting(name, DEFINITIONS[name].read(name, text), Origin.GIVEN, source)
