"""What goes with the new log, queues and index: checkpoint, config, and what the timer knows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS, Checkpoint
from rmqtool.io import Kind
from rmqtool.salvage.writing import FileCopier, Written
from rmqtool.store.broker_json import parse_broker_json, read_config_text
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqtool.io import Location
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle

_TIMER_PLACES = ("timerwheel", "config/timercheck")
_TIMER_LOG = "timerlog"
_MANY = 1000  # config files that are looked at

ConfigDoctor = "Callable[[Location], bytes | None]"
"""Given a config file that does not parse, what to write instead; None leaves it out."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of ``config/``.

    Attributes:
        label: path in the store.
        problem: why it is not copied; None if it is.
        mended: whether what was written is not what was there.
    """

    label: str
    problem: str | None = None
    mended: bool = False


def copy_config(
    store: Store, staging: StagingHandle, doctor: Callable[[Location], bytes | None] | None = None
) -> tuple[list[ConfigFile], list[Written]]:
    """Copy the broker's JSON files that parse as they are.

    Args:
        store: the copy that leads.
        staging: where to write.
        doctor: asked about those that do not parse: the place where a config doctor plugs in.
    """
    told: list[ConfigFile] = []
    written: list[Written] = []
    if store.config is None:
        return told, written
    for entry in store.config.entries()[:_MANY]:
        if entry.status.kind is not Kind.FILE or not entry.name.endswith((".json", ".properties")):
            continue
        path = store.config / entry.name
        label = f"config/{entry.name}"
        data, problem = _parsed(path)
        mended = False
        if data is None and doctor is not None:
            data, mended = doctor(path), True
        if data is not None:
            written.append(_write(label, data, staging))
            problem = None
        told.append(ConfigFile(label, problem, mended and data is not None))
    return told, written


def _parsed(path: Location) -> tuple[bytes | None, str | None]:
    """Return a config file that can be used as it is, or why it cannot."""
    try:
        text = read_config_text(path)
        if path.name.endswith(".json"):
            if not text.strip("\0 \r\n\t"):
                return None, "is empty"
            parse_broker_json(text)
        return path.read_head(len(text.encode()) * 4 + 4), None
    except (EnvironmentFailureError, ValueError) as failure:
        return None, str(failure)


def copy_timer(store: Store, staging: StagingHandle) -> list[Written]:
    """Copy what the timer of 5.x knows: records keep their places, so what it names is still there."""
    if store.root is None:
        return []
    names = [*_TIMER_PLACES]
    directory = store.root / _TIMER_LOG
    if directory.is_directory():
        names += [f"{_TIMER_LOG}/{entry.name}" for entry in directory.entries()]
    copier, found = FileCopier(staging), []
    for name in names:
        status = (store.root / name).status()
        if status is not None and status.kind is Kind.FILE:
            found.append(copier(StoreFile(store.root / name, name, status.size_bytes)))
    return found


def write_checkpoint(
    staging: StagingHandle, *, last_ms: int, index_ms: int, end: int, last_record: int
) -> Written:
    """Write the checkpoint of a broker that stopped after the log's last record.

    Args:
        staging: where to write.
        last_ms: store time of that record.
        index_ms: endTimestamp of the last index file that is full; 0 without any.
        end: physical offset after it.
        last_record: its physical offset.
    """
    fields = Checkpoint(last_ms, last_ms, index_ms, 0, end, last_record)
    return _write("checkpoint", CHECKPOINTS.encode(fields).ljust(CHECKPOINT_FILE_SIZE, b"\0"), staging)


def _write(label: str, data: bytes, staging: StagingHandle) -> Written:
    with staging.create_file(label) as file:
        file.write_at(0, data)
    return Written(label, hashlib.sha256(data).hexdigest(), len(data))
