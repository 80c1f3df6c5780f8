"""From raw bytes without names to a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.api.arguments import AnyPath, Value, property_texts
from rmqtool.carve.images import read_map
from rmqtool.commands.carve import CarveReport, CarveRequest, carve
from rmqtool.engine import EngineOptions
from rmqtool.errors import UsageError
from rmqtool.io import location_of
from rmqtool.io.location import image_at
from rmqtool.options import check_least
from rmqtool.progress import NullProgress, Progress
from rmqtool.store.setting import given_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqtool.carve.images import Ranges

_FILE_SIZE = "mappedFileSizeCommitLog"
_LARGEST_MAP = 1 << 30


def carve_images(
    images: AnyPath | Iterable[AnyPath],
    out: AnyPath | None = None,
    *,
    commitlog_size: int | None = None,
    domain_maps: Iterable[AnyPath] = (),
    one_log: bool = False,
    broker_conf: AnyPath | None = None,
    properties: Mapping[str, Value] | Iterable[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> CarveReport:
    """Find messages in raw bytes without names, and make stores of them; the images are only read.

    Args:
        images: Disk images, block devices, blobs, dumps, segments without names; one, or several.
        out: The result; must not exist, or be an empty directory. None only looks.
        commitlog_size: Bytes of a commit log's files; None is ``mappedFileSizeCommitLog`` if that is given,
            else it is inferred.
        domain_maps: Of each image, a map of ddrescue: only what it calls finished is read. None at all, or
            one for each image.
        one_log: Whether all store hosts are those of one broker.
        broker_conf: The broker's own properties file.
        properties: Settings of the broker by their own names.
        jobs: Tasks at a time; None is all cores.
        progress: Receives the stages.

    Raises:
        UsageError: Something that was given makes no sense.
        RefusedError: The output exists, or lies in a store that is read or on a device that is carved.
        EnvironmentFailureError: An image cannot be read, or the disk is full.
    """
    check_least(1, jobs=jobs, commitlog_size=commitlog_size)
    paths = [images] if isinstance(images, str | os.PathLike) else [*images]
    maps = [*domain_maps]
    if not paths:
        raise UsageError("give an image")
    if maps and len(maps) != len(paths):
        raise UsageError(f"{len(maps)} maps for {len(paths)} images: give one for each, in their order")
    if commitlog_size is None:
        given = given_settings(None if broker_conf is None else Path(broker_conf), property_texts(properties))
        commitlog_size = int(str(given[_FILE_SIZE].value)) if _FILE_SIZE in given else None
    request = CarveRequest(
        images=[image_at(path) for path in paths],
        out=None if out is None else Path(out),
        domains=[_domain(path) for path in maps],
        file_size=commitlog_size,
        one_log=one_log,
        engine=EngineOptions("local", jobs),
    )
    return carve(request, NullProgress() if progress is None else progress)


def _domain(path: AnyPath) -> Ranges:
    text = location_of(path).read_head(_LARGEST_MAP).decode("utf-8", "replace")
    return read_map(text, os.fspath(path))
