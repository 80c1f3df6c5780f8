"""Paths, times and settings as callers write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rmqtool.errors import UsageError
from rmqtool.io import Location, local_name, location_of
from rmqtool.io.object_urls import is_object_url

if TYPE_CHECKING:
    import os
    from datetime import datetime

AnyPath: TypeAlias = "str | os.PathLike[str]"
AnyStore: TypeAlias = "AnyPath | Location"
"""A path of this machine's, a URL as text, or what rmqtool has made of either."""

Time: TypeAlias = "int | str | datetime"
"""Epoch ms, a text as on the command line, or a ``datetime``; one without zone is of the store's timezone."""

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
