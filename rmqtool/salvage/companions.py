"""What goes with the new log, queues and index: checkpoint, config, and what the timer knows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.doctor import diagnose
from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.checkpoint import CHECKPOINT_FILE_SIZE, CHECKPOINTS, CheckpointFields
from rmqtool.io import FileKind
from rmqtool.salvage.writing import FileCopier, WrittenFile
from rmqtool.store.broker_json import parse_broker_json, read_config_text
from rmqtool.store.segments import StoreFile

if TYPE_CHECKING:
    from rmqtool.doctor import ConfigDiagnosis
    from rmqtool.io import Location
    from rmqtool.store import Store
    from rmqtool.store.staging import StagingHandle

_TIMER_PLACES = ("timerwheel", "config/timercheck")
_TIMER_LOG = "timerlog"
_MANY = 1000  # config files that are looked at
_NOTHING_LEFT = "nothing is left of it: restore it from a backup or a replica before the next start"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of ``config/``.

    Attributes:
        label: path in the store.
        problem: why it is not copied; None if it is.
        mended: what was written in place of one that is damaged, and what that means; None if it is a copy.
    """

    label: str
    problem: str | None = None
    mended: str | None = None


def copy_config(store: Store, staging: StagingHandle) -> tuple[list[ConfigFile], list[WrittenFile]]:
    """Copy the broker's settings; of damaged ones what the doctor takes for the best that is left.

    Args:
        store: the copy that leads.
        staging: where to write.
    """
    told: list[ConfigFile] = []
    written: list[WrittenFile] = []
    if store.config is None or store.root is None:
        return told, written
    damaged = {one.file: one for one in diagnose(store) if not one.is_sound}
    there = [
        f"config/{entry.name}"
        for entry in store.config.entries()[:_MANY]
        if entry.status.kind is FileKind.FILE and entry.name.endswith((".json", ".properties"))
    ]
    for label in sorted({*there, *damaged}):
        if label not in damaged:
            data, problem = _parsed(store.root / label)
            told.append(ConfigFile(label, problem))
        else:
            data, one = _mended(damaged[label], store.root)
            told.append(one)
        if data is not None:
            written.append(_write(label, data, staging))
    return told, written


def _mended(diagnosis: ConfigDiagnosis, root: Location) -> tuple[bytes | None, ConfigFile]:
    """Return the best choice there is: a broker that starts without the file forgets all of it."""
    if not diagnosis.choices:
        return None, ConfigFile(diagnosis.file, _NOTHING_LEFT)
    best = diagnosis.choices[0]
    others = ", ".join(one.name for one in diagnosis.choices[1:])
    said = [f"{best.name}: {best.about}", *best.consequences()]
    said += [f"other choices: {others}"] if others and not diagnosis.obvious else []
    return best.data(root), ConfigFile(diagnosis.file, mended="; ".join(said))


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


def copy_timer(store: Store, staging: StagingHandle) -> list[WrittenFile]:
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
        if status is not None and status.kind is FileKind.FILE:
            found.append(copier(StoreFile(store.root / name, name, status.size_bytes)))
    return found


def write_checkpoint(
    staging: StagingHandle, *, last_ms: int, index_ms: int, end: int, last_record: int
) -> WrittenFile:
    """Write the checkpoint of a broker that stopped after the log's last record.

    Args:
        staging: where to write.
        last_ms: store time of that record.
        index_ms: endTimestamp of the last index file that is full; 0 without any.
        end: physical offset after it.
        last_record: its physical offset.
    """
    fields = CheckpointFields(last_ms, last_ms, index_ms, 0, end, last_record)
    return _write("checkpoint", CHECKPOINTS.encode(fields).ljust(CHECKPOINT_FILE_SIZE, b"\0"), staging)


def _write(label: str, data: bytes, staging: StagingHandle) -> WrittenFile:
    with staging.create_file(label) as file:
        file.write_at(0, data)
    return WrittenFile(label, hashlib.sha256(data).hexdigest(), len(data))
