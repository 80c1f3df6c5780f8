"""Options of commands, each declared once, as a field of the command's request.

`flag`, `number`, `text`, `moment`, `names`, `word` and `words` make such a field. From its declaration come
the option of the command line (`rmqtool.cli.options.request_options`), the keyword of a method of
`rmqtool.Store`, and the check of its value (`request_of`).
"""

# ruff: noqa: ANN401 - a field has the type that its class says
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, field, fields
from datetime import datetime, tzinfo
from enum import Enum, auto
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from rmqtool.errors import UsageError
from rmqtool.times import epoch_ms

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Word = TypeVar("_Word", bound=str)
_Request = TypeVar("_Request", bound="DataclassInstance")

_OPTION = "option"
GROUP = {"group": True}
"""Metadata of a field whose default factory is a class with options of its own."""

TIMES_HELP = "TIME: 2022-04-15T13:20, yesterday, -2h: see rmqtool help query."
"""Forms of times; the command reports how it read one."""

DECOMPRESS_HELP = "Unpack bodies that SYSFLAG says are compressed."
UNPACK_HELP = "Also show the messages in inner batches (5.x), a row each."


class ValueKind(Enum):
    """Type of an option's values."""

    FLAG = auto()
    NUMBER = auto()
    TEXT = auto()
    MOMENT = auto()
    NAMES = auto()
    WORD = auto()
    WORDS = auto()


class Option(NamedTuple):
    """Declaration of an option.

    Attributes:
        default: Value that the command line shows as the default.
        name: Keyword of the method, and with dashes the option of the command line.
        flags: Spellings on the command line that do not follow from the name.
        metavar: Name of the value in help.
        least: Least number; None: any.
        most: Greatest number.
        words: Values of a word.
        convert: Makes the field's value of a checked one.
    """

    kind: ValueKind
    help: str
    default: Any = None
    name: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    least: int | None = 0
    most: int | None = None
    words: Iterable[str] = ()
    convert: Callable[[Any], Any] | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the command line takes it more than once."""
        return self.kind in {ValueKind.NAMES, ValueKind.WORDS}

    def value(self, given: object, zone: tzinfo | None) -> Any:
        """Return the field's value; UsageError if the given one is not among the option's values."""
        value = self._checked(given, zone)
        return value if self.convert is None else self.convert(value)

    def _checked(self, given: Any, zone: tzinfo | None) -> object:
        if self.kind is ValueKind.NUMBER:
            check_least(self.least, **{self.name: given})  # the greatest is the command's own rule
        elif self.kind is ValueKind.TEXT and not isinstance(given, str):
            raise UsageError(f"{self.name}={given!r}: give one text")
        elif self.kind is ValueKind.MOMENT:
            return time_ms(self.name, given, zone)
        elif self.kind is ValueKind.NAMES:
            return names_of(given)
        elif self.kind is ValueKind.WORD:
            return word_of(self.name, given, self.words)
        elif self.kind is ValueKind.WORDS:
            return frozenset(word_of(self.name, name, self.words) for name in names_of(given))
        return given


def flag(summary: str, **more: Any) -> Any:
    """Return a field that is False by default."""
    return _field(Option(ValueKind.FLAG, summary, default=False, **more))


def number(summary: str, default: int | None = None, *, metavar: str = "N", **more: Any) -> Any:
    """Return a field of an integer, from 0 unless ``least`` is another."""
    return _field(Option(ValueKind.NUMBER, summary, default, metavar=metavar, **more))


def text(summary: str, metavar: str, default: str | None = None, **more: Any) -> Any:
    """Return a field of one text."""
    return _field(Option(ValueKind.TEXT, summary, default, metavar=metavar, **more))


def moment(name: str, summary: str, **more: Any) -> Any:
    """Return a field of a time in epoch milliseconds."""
    return _field(Option(ValueKind.MOMENT, summary, name=name, metavar="TIME", **more))


def names(summary: str, **more: Any) -> Any:
    """Return a field of globs; none by default."""
    return _field(Option(ValueKind.NAMES, summary, (), metavar="GLOB", **more))


def word(values: Iterable[str], default: str | None, summary: str, **more: Any) -> Any:
    """Return a field of one word; of an enumeration, its member."""
    return _field(Option(ValueKind.WORD, summary, default, words=values, **more))


def words(values: Iterable[str], summary: str, **more: Any) -> Any:
    """Return a field of a set of words; none by default."""
    return _field(Option(ValueKind.WORDS, summary, frozenset(), words=values, **more))


def _field(option: Option) -> Any:
    default = option.default if option.convert is None else option.convert(option.default)
    return field(default=default, metadata={_OPTION: option})


def begin() -> Any:
    """Return the field of ``--begin``."""
    summary = f"Only messages stored since this time. {TIMES_HELP}"
    return moment("begin", summary, flags=("-b", "--begin"))


def end() -> Any:
    """Return the field of ``--end``."""
    summary = "Only messages stored until this time."
    return moment("end", summary, flags=("-e", "--end"))


def from_offset() -> Any:
    """Return the field of ``--from-offset``; inside a record, the next one is the first."""
    return number("From this physical offset on.", metavar="P")


def to_offset() -> Any:
    """Return the field of ``--to-offset``."""
    return number("Before this physical offset.", metavar="P")


def max_findings(default: int, done: str, least: int = 1) -> Any:
    """Return the field of ``--max-findings``; ``done`` is a participle for the help: kept, shown."""
    return number(f"Findings of one code that are {done}; the rest is counted.", default, least=least)


def live() -> Any:
    """Return the field of ``--live``."""
    return flag("Read a store whose lock a broker holds.")


def declared_options(request: type[DataclassInstance]) -> Iterator[Option]:
    """Yield the options of a request, in their order."""
    for declared in fields(request):
        if declared.metadata == GROUP:
            yield from declared_options(_class_of(declared))
        elif _OPTION in declared.metadata:
            yield _named(declared.name, declared.metadata[_OPTION])


def _class_of(group: Field[Any]) -> type[DataclassInstance]:
    return cast("type[DataclassInstance]", group.default_factory)


def _named(name: str, option: Option) -> Option:
    return option if option.name else option._replace(name=name)


def request_of(
    request: type[_Request], given: Mapping[str, object], zone: tzinfo | None = None, **more: object
) -> _Request:
    """Return a request with the options that a caller gave; None is no value, ``more`` are other fields.

    An unknown option raises TypeError, as a keyword does that a function has not; a value that an option does
    not take raises UsageError. ``zone`` None is this machine's.
    """
    unknown = given.keys() - {option.name for option in declared_options(request)}
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: no such option")
    return _filled(request, given, zone, more)


def _filled(
    request: type[_Request], given: Mapping[str, object], zone: tzinfo | None, values: dict[str, object]
) -> _Request:
    for declared in fields(request):
        if declared.metadata == GROUP:
            values[declared.name] = _filled(_class_of(declared), given, zone, {})
        elif _OPTION in declared.metadata:
            option = _named(declared.name, declared.metadata[_OPTION])
            if given.get(option.name) is not None:
                values[declared.name] = option.value(given[option.name], zone)
    return request(**values)


def time_ms(name: str, given: object, zone: tzinfo | None) -> int | None:
    """Return a time in epoch milliseconds, or None if none was given; UsageError for anything else."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | str | datetime):
        raise UsageError(f"{name}={given!r} is not a time; pass epoch ms, a datetime or a text")
    return epoch_ms(given, zone)


def check_least(least: int | None, **numbers: object) -> None:
    """Raise a UsageError that names the first of some numbers that is too small, or no whole number."""
    for name, number in numbers.items():
        if number is None:
            continue
        if not isinstance(number, Integral):  # which numpy's are, too
            raise UsageError(f"{name}={number!r}: give one whole number")
        if least is not None and number < least:
            raise UsageError(f"{name}={number}: must be at least {least}")


def names_of(given: object) -> tuple[str, ...]:
    """Return one name, or several, as several; UsageError if one is not a text."""
    several = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if wrong := [value for value in several if not isinstance(value, str)]:
        raise UsageError(f"{wrong[0]!r} is not a name; pass one text, or several")
    return several


def word_of(name: str, value: object, words: Iterable[_Word]) -> _Word:
    """Return the word itself, which may be a member of an enumeration; a UsageError lists the words."""
    for word in words:
        if word == value:
            return word
    raise UsageError(f"{name}={value!r}: give one of {', '.join(words)}")
