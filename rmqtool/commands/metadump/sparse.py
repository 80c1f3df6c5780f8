"""Writing without the zeros: pages of nothing else stay holes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rmqtool.store.staged_file import StagedFile

_PAGE_BYTES = 4096


def write_sparse(target: StagedFile, position: int, data: bytes | memoryview) -> None:
    """Write bytes, except for whole pages of the file that are zeros.

    Args:
        target: The file, at its full size already, still zeros there.
        position: Bytes from its start.
        data: The bytes.

    Raises:
        EnvironmentFailureError: Out of space, or another I/O error.
    """
    if len(data) < _PAGE_BYTES:
        target.write_at(position, data)
        return
    skew = position % _PAGE_BYTES
    starts = np.maximum(np.arange(-skew, len(data), _PAGE_BYTES), 0)
    is_used = np.maximum.reduceat(np.frombuffer(data, np.uint8), starts) > 0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], is_used, [0]])))
    stops = np.append(starts, len(data))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        target.write_at(position + int(stops[first]), data[stops[first] : stops[last]])
