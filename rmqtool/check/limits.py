"""Parts that a verification leaves out, so that no verdict promises more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.check.model import MAX_LEVEL
from rmqtool.findings import Structure
from rmqtool.findings.places import ST_ONE_PATH, ST_ROCKSDB
from rmqtool.store.kinds import QUEUE_KINDS, PathKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyRequest
    from rmqtool.store import Store

_LEVELS = (
    "level 0: names and sizes only",
    "level 1: each file on its own, not compared with the log",
    "level 2: whether every message is in queues and index was not checked",
)
_DERIVED = {**dict.fromkeys(QUEUE_KINDS, "queues"), PathKind.INDEX: "index"}


def limits_of(request: VerifyRequest) -> Iterator[str]:
    """Yield the parts that are left out, each as the end of a sentence."""
    store, level = request.store, request.level
    name = _DERIVED.get(store.kind)
    if level < MAX_LEVEL:
        yield _LEVELS[level]
    if store.kind is PathKind.COMMITLOG:
        yield "commit log alone: without queues and index"
    elif name is not None and not len(store.log):
        yield f"{name} alone: not compared with the log"
    if store.place.is_file and name is not None:
        yield "one file: the files beside it were not checked"
    yield from _other_layouts(store)


def _other_layouts(store: Store) -> Iterator[str]:
    for feature in store.features:
        if feature.unread is Structure.UNREAD_LOG:
            is_path = feature.code is ST_ONE_PATH
            what = f"{'' if is_path else 'without '}{feature.label}: {feature.code.title}"
            yield f"{what}, so nothing was compared with the log"
        elif feature.code is ST_ROCKSDB and store.kind in {PathKind.STORE, PathKind.CONSUMEQUEUE}:
            what = " of light queues" if feature.light_only else ""
            yield f"without {feature.label}: {feature.code.title}{what}"
