"""Message bodies as files, byte by byte what the log holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool import rows
from rmqtool.errors import EnvironmentFailureError, RefusedError
from rmqtool.report.whole_file import refuse_evidence, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class BodyFiles:
    """A directory that receives one file for each body, named by the message's place in the log.

    Args:
        directory: Created if it is not there.
        evidence_roots: Directories that nothing is written into.

    Raises:
        RefusedError: The directory lies in the evidence.
        EnvironmentFailureError: It cannot be created.
    """

    def __init__(self, directory: Path, evidence_roots: Iterable[Path]) -> None:
        refuse_evidence(directory, evidence_roots)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise EnvironmentFailureError(f"{directory}: cannot be created: {failure.strerror}") from failure
        self._directory = directory

    def add(self, message: rows.Message | rows.InnerMessage) -> None:
        """Write the body of one message; a message without a body gets no file.

        A message of an inner batch has its index after the record's place.

        Raises:
            RefusedError: The file is there already.
            EnvironmentFailureError: It cannot be written; nothing of it is left behind.
        """
        if not message.body:
            return
        index = f"-{message.index}" if isinstance(message, rows.InnerMessage) else ""
        path = self._directory / f"{message.physical_offset:020d}{index}.body"
        if path.exists():  # of another store, too, a record at this place may have been written
            raise RefusedError(f"{path}: exists; give --body-dir a new directory")
        write_whole(path, message.body, sync=False)
