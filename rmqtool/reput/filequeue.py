"""Write a file queue: files of equal size, each named by the address of its first byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.store.staged_file import StagedFile
    from rmqtool.store.staging import StagingHandle


class FileQueueWriter:
    """Appends bytes to a file queue, creating each file at its full size when its first byte comes.

    Args:
        staging: where the files are made.
        directory: of the queue, relative to the staging area.
        file_size: bytes of each file.
        first_start: address of the first file's first byte.

    Attributes:
        files: how many were created.
    """

    def __init__(self, staging: StagingHandle, directory: str, file_size: int, first_start: int = 0) -> None:
        self._staging = staging
        self._directory = directory
        self._file_size = file_size
        self._start = first_start  # of the next file to create
        self._file: StagedFile | None = None
        self._position = file_size  # in the current file: full, so that the first byte opens one
        self.files = 0

    def append(self, data: memoryview) -> None:
        """Append bytes, over file ends if need be.

        Raises:
            EnvironmentFailureError: a file cannot be written.
        """
        while data:
            if self._position == self._file_size:
                self._create()
            piece = data[: self._file_size - self._position]
            self._current.write_at(self._position, piece)
            self._position += len(piece)
            data = data[len(piece) :]

    @property
    def room(self) -> int:
        """Return the bytes left in the current file; 0 when the next byte opens one."""
        return self._file_size - self._position

    @property
    def address(self) -> int:
        """Return the address of the next byte that is appended."""
        return self._start - self.room

    def end_file(self) -> None:
        """Leave the rest of the current file as it is: the next byte opens the next one."""
        self._position = self._file_size

    def create_up_to(self, stop: int) -> None:
        """Create the empty files that end at ``stop`` or before it."""
        while self._start < stop:
            self._create()

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.finish()
            self._file = None

    @property
    def _current(self) -> StagedFile:
        if self._file is None:
            raise ValueError("no file is open")
        return self._file

    def _create(self) -> None:
        self.close()
        sign = "-" if self._start < 0 else ""  # a damaged queue offset can begin a queue there
        name = f"{sign}{abs(self._start):020d}"
        self._file = self._staging.create_file(f"{self._directory}/{name}", self._file_size)
        self._start += self._file_size
        self._position = 0
        self.files += 1
