"""KERNELS: machine code for loops over records and units; the only package that knows numba."""

from __future__ import annotations
