"""From a path to an opened store; ids need none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqtool.api.arguments import AnyPath, AnyStore, Time, Value, path_of, property_texts
from rmqtool.api.opened import kind_named
from rmqtool.api.store import Store
from rmqtool.io import location_of
from rmqtool.options import time_ms
from rmqtool.store import open_store
from rmqtool.store.geometry import local_zone, zone_of_name
from rmqtool.store.kinds import DIRECTORY_NAMES, looks_like_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.commands.decode_id import Reading


def open(
    path: AnyStore,
    *,
    type: str | None = None,
    broker_conf: AnyPath | None = None,
    properties: Mapping[str, Value] | Iterable[str] = (),
    broker_version: str | None = None,
    timezone: str | None = None,
) -> Store:
    """Open a store, or a part of one, for reading; nothing in it is ever written, locked or extended.

    Args:
        path: A store root (the directory that holds ``commitlog/``), one of its directories, or one file; or
            the URL of one, such as ``s3://bucket/store``.
        type: What it is, where place and bytes do not tell: ``commitlog``, ``consumequeue``,
            ``consumequeue-ext``, ``batchconsumequeue``, ``index``, ``checkpoint`` or ``config``. Of a store
            root, that part alone is opened.
        broker_conf: The broker's own properties file.
        properties: Settings of the broker by their own names; they win over ``broker_conf``.
        broker_version: A release, ``4.9`` or ``5.x``; None infers it.
        timezone: Zone of times without one, such as ``Asia/Shanghai``; None is this machine's.

    Raises:
        EnvironmentFailureError: Nothing of a store is there, or it may not be read.
        UsageError: Something that was given makes no sense.
    """
    place, kind = location_of(path), None if type is None else kind_named(type)
    if kind is not None and looks_like_store(place):
        place /= DIRECTORY_NAMES.get(kind, kind.value)
    files = open_store(
        place,
        kind=kind,
        broker_conf=path_of(broker_conf),
        properties=property_texts(properties),
        broker_version=broker_version,
        timezone=timezone,
    )
    return Store(files, None if timezone is None else zone_of_name(timezone))


def kind_of_part(path: AnyStore, kind: str | None) -> str | None:
    """Return what is to be opened of a path: of a store root everything, which is None, else the part."""
    return None if looks_like_store(location_of(path)) else kind


def decode_id(text: str, *, near: Time | None = None, timezone: str | None = None) -> tuple[Reading, ...]:
    """Take a message id apart; return its readings, plausible ones first, none if it is no id.

    Args:
        text: 32, 34 or 56 hexadecimal digits.
        near: A time near the message's: a unique id does not hold the month.
        timezone: The client's zone; None is this machine's.

    Raises:
        UsageError: There is no such time or zone.
    """
    from rmqtool.commands.decode_id import decode_id as readings

    zone = local_zone() if timezone is None else zone_of_name(timezone)
    return tuple(readings(text, time_ms("near", near, zone), zone, time.time_ns() // 1_000_000))
