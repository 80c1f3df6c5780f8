"""What callers may write for paths, times and settings, and what commands take for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rmqtool.errors import UsageError
from rmqtool.io import Location, local_name, location_of
from rmqtool.io.object_urls import is_object_url
from rmqtool.times import epoch_ms

if TYPE_CHECKING:
    import os
    from datetime import tzinfo

    from rmqtool.rows.messages import MessageFilter

AnyPath: TypeAlias = "str | os.PathLike[str]"
AnyStore: TypeAlias = "AnyPath | Location"
"""A path of this machine's, a URL as text, or what rmqtool has made of either."""

Time: TypeAlias = "int | str | datetime"
"""Epoch ms, a text as on the command line, or a ``datetime``; one without zone is of the store's timezone."""

_Word = TypeVar("_Word", bound=StrEnum)

Value: TypeAlias = "str | int | bool | Path"
"""Of a broker's setting."""


def path_of(path: AnyPath | None) -> Path | None:
    """Return a path, or None if none was given.

    Raises:
        UsageError: It is a URL.
    """
    return None if path is None else Path(local_name(path))


def target_of(path: AnyStore) -> Path | Location:
    """Return where something is written: a path, or what the URL of an object store's names.

    Raises:
        UsageError: It is another URL, or one that makes no sense.
    """
    if isinstance(path, Location):
        return path
    return location_of(path) if isinstance(path, str) and is_object_url(path) else Path(local_name(path))


def property_texts(properties: Mapping[str, Value] | Iterable[str]) -> list[str]:
    """Return settings as ``NAME=VALUE``, as the command line has them; truth as Java writes it."""
    if isinstance(properties, str):
        raise UsageError(f"properties={properties!r}: pass a mapping, or a list of NAME=VALUE")
    if not isinstance(properties, Mapping):
        return list(properties)
    return [f"{name}={_java_text(value)}" for name, value in properties.items()]


def _java_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def time_ms(name: str, moment: Time | None, zone: tzinfo | None) -> int | None:
    """Return a time in epoch milliseconds, or None if none was given.

    Raises:
        UsageError: It is no time.
    """
    if moment is None:
        return None
    if isinstance(moment, bool) or not isinstance(moment, int | str | datetime):
        raise UsageError(f"{name}={moment!r} is not a time; pass epoch ms, a datetime or a text")
    return epoch_ms(moment, zone)


def filter_of(
    zone: tzinfo | None,
    *,
    topic: str | Iterable[str] | None,
    queue: int | None,
    tag: str | None,
    key: str | None,
    begin: Time | None,
    end: Time | None,
    from_queue_offset: int | None,
    inside_batches: bool = False,
) -> MessageFilter:
    """Return which messages a caller's words ask for: see `Store.dump`.

    Raises:
        UsageError: A time or a text is none, or the queue offset is negative.
    """
    from rmqtool.rows.messages import MessageFilter

    check_least(0, from_queue_offset=from_queue_offset)
    check_texts(tag=tag, key=key)
    topics = () if topic is None else names_of(topic)
    return MessageFilter(
        topic=topics if len(topics) > 1 else topics[0] if topics else None,
        queue_id=queue,
        tag=tag,
        key=key,
        begin_ms=time_ms("begin", begin, zone),
        end_ms=time_ms("end", end, zone),
        from_queue_offset=from_queue_offset,
        inside_batches=inside_batches,
    )


def check_least(least: int, **numbers: int | None) -> None:
    """Check that numbers are at least so large.

    Raises:
        UsageError: One is smaller; the message names it.
    """
    for name, number in numbers.items():
        if number is not None and number < least:
            raise UsageError(f"{name}={number}: must be at least {least}")


def check_texts(**texts: object) -> None:
    """Check that arguments are one text each, where the type checker does not: later they fail anywhere.

    Raises:
        UsageError: One is not; the message names it.
    """
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{name}={text!r}: give one text")


def names_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name, or several, as several.

    Raises:
        UsageError: One is no text.
    """
    given: object = names
    several = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    if wrong := [one for one in several if not isinstance(one, str)]:
        raise UsageError(f"{wrong[0]!r} is not a name; pass one text, or several")
    return several


def word_of(name: str, value: str, words: type[_Word]) -> _Word:
    """Return a word of an enumeration.

    Raises:
        UsageError: It has no such word.
    """
    try:
        return words(value)
    except ValueError:
        raise UsageError(f"{name}={value!r}: give one of {', '.join(words)}") from None
