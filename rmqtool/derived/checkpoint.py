"""The checkpoint: its fields, or what a broker makes of a file that is missing or short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.formats.checkpoint import CHECKPOINTS, Checkpoint

if TYPE_CHECKING:
    from collections.abc import MutableSequence

    from rmqtool.io.reading import ReadOnlyFile, UnreadableRange
    from rmqtool.store.segments import StoreFile


def read_checkpoint(
    file: StoreFile | ReadOnlyFile | None, unreadable: MutableSequence[UnreadableRange] | None = None
) -> Checkpoint | None:
    """Return the fields of a checkpoint; None if there is none, or it is too short to hold them.

    Args:
        file: The file; it is closed.
        unreadable: As for `ReadOnlyFile.read_at`.

    Raises:
        EnvironmentFailureError: The file cannot be opened or read.
    """
    return None if file is None else CHECKPOINTS.decode(_head(file, unreadable))


def loaded_checkpoint(file: StoreFile | ReadOnlyFile | None) -> Checkpoint:
    """Return what a broker has in memory: a missing field is zero, as it extends the file to its size.

    Java: ``StoreCheckpoint`` (4.9.8, 5.3.3).

    Raises:
        EnvironmentFailureError: The file cannot be opened or read.
    """
    return Checkpoint() if file is None else CHECKPOINTS.padded(_head(file, []))


def _head(file: StoreFile | ReadOnlyFile, unreadable: MutableSequence[UnreadableRange] | None) -> bytes:
    try:
        return file.read_at(0, CHECKPOINTS.size, unreadable)
    finally:
        file.close()
