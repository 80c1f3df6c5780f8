"""Kernels that only other kernels call, compiled for a test to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def from_python(kernel: Kernel) -> Kernel:
    """Return the kernel with the wrapper that it lacks in the package, see `rmqtool.kernels.jit.kernel`."""
    return cast("Kernel", numba.njit(nogil=True)(kernel.py_func))  # type: ignore[attr-defined] # numba's
