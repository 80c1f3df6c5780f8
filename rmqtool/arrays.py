"""Names for arrays of numpy in signatures, for type checkers only: no module needs them when it runs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Of any type of element."""

Bools: TypeAlias = npt.NDArray[np.bool_]
Buffer: TypeAlias = npt.NDArray[np.uint8]
"""Bytes."""

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = npt.NDArray[np.void]
"""A structured array."""

Row: TypeAlias = Any
"""One element of `Rows`: in a kernel its fields are attributes."""
