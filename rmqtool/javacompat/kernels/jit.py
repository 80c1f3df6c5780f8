"""How kernels are compiled, and the one way to read eight bytes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy.typing as npt

    Buffer = npt.NDArray[np.uint8]

_Kernel = TypeVar("_Kernel", bound="Callable[..., Any]")


def kernel(function: _Kernel) -> _Kernel:
    """Compile at the first call, keep on disk, run without the GIL.

    Kernels allocate nothing, so numba's counting of references to arrays is switched off (``_nrt``): it
    costs two atomic operations for each array at each call, more than hashing a key. That holds for the
    *caller* too: a loop around these kernels wants this decorator. One that does allocate is refused by the
    compiler.

    Bounds are checked when ``NUMBA_BOUNDSCHECK=1`` (with a new cache directory: numba's does not know).
    The function keeps its type, which numba's decorator loses for mypy.
    """
    return cast("_Kernel", njit(cache=True, nogil=True, _nrt=False)(function))


@kernel
def as_int(value: np.integer[Any]) -> int:
    """Take a number as int64, what an ``int`` is in kernels; bits beyond its range become the sign."""
    return np.int64(value)  # type: ignore[return-value] # outside of a kernel this is no int


@kernel
def load_word(buffer: Buffer, position: int) -> np.uint64:
    """Read eight bytes as a little-endian number: the first byte is the lowest.

    Unsigned positions spare numba's test for negative ones; LLVM then makes a single load of this.
    """
    p = np.uint64(position)
    return (
        np.uint64(buffer[p])
        | np.uint64(buffer[p + np.uint64(1)]) << np.uint64(8)
        | np.uint64(buffer[p + np.uint64(2)]) << np.uint64(16)
        | np.uint64(buffer[p + np.uint64(3)]) << np.uint64(24)
        | np.uint64(buffer[p + np.uint64(4)]) << np.uint64(32)
        | np.uint64(buffer[p + np.uint64(5)]) << np.uint64(40)
        | np.uint64(buffer[p + np.uint64(6)]) << np.uint64(48)
        | np.uint64(buffer[p + np.uint64(7)]) << np.uint64(56)
    )
