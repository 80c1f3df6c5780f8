"""Memory of columns, used again: pages that the kernel must clear cost more than what is written to them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqtool.arrays import Buffer

_KEPT = 4
"""So many pieces of memory wait to be used again."""

_ALIGNMENT = 64
_waiting: list[Buffer] = []


class _Leased(np.ndarray[Any, Any]):
    """Memory that comes back once no array, of numpy or Arrow, refers to it any more.

    Numpy lets views of views refer to the last array of the same class, which is this one.
    """


class Memory:
    """Arrays in one piece of memory.

    Args:
        shapes: Of each array, with the type of its elements.

    Attributes:
        arrays: For kernels; they must not be used after `lease`.
    """

    def __init__(self, shapes: Sequence[tuple[tuple[int, ...], type[np.generic]]]) -> None:
        self._shapes = shapes
        self._places = [0]
        for shape, kind in shapes:
            size = int(np.prod(shape)) * np.dtype(kind).itemsize
            self._places.append(self._places[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        self._bytes = _taken(self._places[-1])
        self.arrays = self._views(self._bytes)

    def lease(self) -> list[np.ndarray[Any, Any]]:
        """Return the arrays for others: when the last is gone, the memory is used again."""
        leased = self._bytes.view(_Leased)
        weakref.finalize(leased, _give_back, self._bytes)
        return self._views(leased)

    def _views(self, memory: Buffer) -> list[np.ndarray[Any, Any]]:
        views = []
        for (shape, kind), place in zip(self._shapes, self._places, strict=False):
            stop = place + int(np.prod(shape)) * np.dtype(kind).itemsize
            views.append(memory[place:stop].view(kind).reshape(shape))
        return views


def _taken(size: int) -> Buffer:
    """Return memory of that size; what waits and is not, as of jobs that are done, is let go."""
    while _waiting:
        try:
            memory = _waiting.pop()
        except IndexError:  # another thread took it
            break
        if len(memory) == size:
            return memory
    return np.empty(size, np.uint8)


def _give_back(memory: Buffer) -> None:
    if len(_waiting) < _KEPT:
        _waiting.append(memory)
