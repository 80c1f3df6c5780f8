"""Message bodies as files, with the log's exact bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.report.whole_file import refuse_evidence, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class BodyFiles:
    """A directory that receives one file for each body, named by the message's physical offset.

    It is created if missing; `RefusedError` if it lies in the evidence.
    """

    def __init__(self, directory: Path, evidence_roots: Iterable[Path]) -> None:
        refuse_evidence(directory, evidence_roots)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise EnvironmentFailureError(f"{directory}: cannot be created: {failure.strerror}") from failure
        self._directory = directory

    def add(self, message: rows.Message | rows.InnerMessage) -> None:
        """Write the body of one message, if it has one.

        A message of an inner batch adds its index to the name. Raises `RefusedError` if the file exists;
        `EnvironmentFailureError` if it cannot be written, with nothing left behind.
        """
        if not message.body:
            return
        index = f"-{message.index}" if isinstance(message, rows.InnerMessage) else ""
        path = self._directory / f"{message.physical_offset:020d}{index}.body"
        if path.exists():  # perhaps of another store's record at this offset
            raise RefusedError(f"{path}: exists; give --body-dir a new directory")
        write_whole(path, message.body, sync=False)
