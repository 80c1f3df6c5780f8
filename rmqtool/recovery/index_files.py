"""Index files in the broker's memory: which it loads and deletes, and what it puts into them.

Origin: ``IndexService#load``, ``#buildIndex``, ``IndexFile#putKey`` (4.9.8, 5.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqtool.errors import EnvironmentFailureError
from rmqtool.formats.index import HEADERS, HeaderFields
from rmqtool.javacompat import parse_long
from rmqtool.recovery.model import IndexFileOutcome, Refusal
from rmqtool.store.names import label_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from rmqtool.arrays import Rows
    from rmqtool.io import Location
    from rmqtool.releases import Release


_NO_FILE = "cannot be opened as an index file"


@dataclass
class _File:
    label: str | None
    items: int
    begin_phy_offset: int
    end_phy_offset: int


class IndexState:
    """The list of index files; ``items`` is ``maxIndexNum``, of which item 0 is never used.

    Loading lists labels of files that it deletes, and of entries that it skips (``ignored``).
    """

    def __init__(self, items: int) -> None:
        self._capacity = items - 1
        self._files: list[_File] = []
        self._loaded: list[tuple[int, int]] = []
        self.deleted: list[str] = []
        self.ignored: list[str] = []
        self.refusals: list[Refusal] = []

    @property
    def end_phy_offset(self) -> int:
        """Return endPhyOffset of the last file: messages below it are not indexed."""
        return self._files[-1].end_phy_offset if self._files else 0

    @property
    def outcomes(self) -> list[IndexFileOutcome]:
        """Return the files in their present state."""
        return [IndexFileOutcome(file.label, file.items, file.end_phy_offset) for file in self._files]

    def load(
        self, paths: Iterable[Location], base: Location, release: Release, delete_after_ms: int | None
    ) -> None:
        """Load the entries of the index directory.

        After an unclean stop, files that end later than ``delete_after_ms`` (indexMsgTimestamp) are deleted.
        """
        is_over = False
        for path in sorted(paths, key=str):
            label = label_of(path, base)
            header = None if is_over or parse_long(path.name) is None else _header(path)
            if header is None:
                self.ignored.append(label)
                if not is_over and parse_long(path.name) is not None:
                    is_over = True  # 4.9.8 goes on without it and all that follow
                    self.refusals += [Refusal(label, _NO_FILE)] if release.refuses_unreadable_index else []
                continue
            if delete_after_ms is not None and header.end_timestamp_ms > delete_after_ms:
                self.deleted.append(label)
            else:
                items = max(header.index_count - 1, 0)
                self._files.append(_File(label, items, header.begin_phy_offset, header.end_phy_offset))
        self._loaded = [(file.begin_phy_offset, file.end_phy_offset) for file in self._files if file.items]

    def put(self, entries: Rows, keyless: Rows) -> None:
        """Put entries, ``(n,)`` of ``ENTRY_ROW``, in log order.

        A message without entries, one of ``keyless``, creates the successor of a full last file.
        """
        offsets = entries["physical_offset"]
        done = 0
        for idle in keyless["entries_before"] if len(keyless) else ():
            done = self._put(offsets, done, int(idle))
            self._last()
        self._put(offsets, done, len(offsets))

    def covers(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which records the loaded files have entries of, by their ranges; ``(n,)``."""
        covered = np.zeros(len(offsets), np.bool_)
        for begin, end in self._loaded:
            covered |= (offsets >= begin) & (offsets <= end)
        return covered

    def _put(self, offsets: npt.NDArray[np.int64], start: int, stop: int) -> int:
        while start < stop:
            file = self._last()
            count = min(stop - start, self._capacity - file.items)
            file.items += count
            start += count
            file.end_phy_offset = int(offsets[start - 1])
        return stop

    def _last(self) -> _File:
        """Java: ``getAndCreateLastIndexFile``, called for every message before its keys are read."""
        if not self._files or self._files[-1].items >= self._capacity:
            end = self.end_phy_offset
            self._files.append(_File(None, 0, end, end))
        return self._files[-1]


def _header(path: Location) -> HeaderFields | None:
    """Return the header, with zeros after the end of a short file; None where no file can be opened."""
    try:
        return HEADERS.padded(path.read_head(HEADERS.size, []))
    except EnvironmentFailureError:
        return None
