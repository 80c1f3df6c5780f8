"""The checkpoint: its fields, or a broker's values for a file that is missing or short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.checkpoint import CHECKPOINTS, CheckpointFields

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from rmqtool.io.reading import ReadOnlyFile, UnreadableRange
    from rmqtool.store.segments import StoreFile


def read_checkpoint(
    file: StoreFile | ReadOnlyFile | None, unreadable: MutableSequence[UnreadableRange] | None = None
) -> CheckpointFields | None:
    """Return the fields of a checkpoint, which is then closed; None if it is missing or too short."""
    return None if file is None else CHECKPOINTS.decode(_head(file, unreadable))


def loaded_checkpoint(file: StoreFile | ReadOnlyFile | None) -> CheckpointFields:
    """Return a broker's values, zeros past the file's end (Java: ``StoreCheckpoint``, 4.9.8, 5.3.3)."""
    return CheckpointFields() if file is None else CHECKPOINTS.padded(_head(file, []))


def _head(file: StoreFile | ReadOnlyFile, unreadable: MutableSequence[UnreadableRange] | None) -> bytes:
    try:
        return file.read_at(0, CHECKPOINTS.size, unreadable)
    finally:
        file.close()
