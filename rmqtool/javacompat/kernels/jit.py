"""What kernels of every room share: numbers as int64, eight bytes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqtool.jit import kernel

if TYPE_CHECKING:
    from typing import Any

    from rmqtool.arrays import Buffer


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
