"""Bytes that kernels copy: every length, with nothing written beside."""

from __future__ import annotations

import numpy as np

from rmqtool.kernels.bytes import copy_bytes
from tests.compiled import from_python


def test_copies_are_exact() -> None:
    source = np.random.default_rng(1).integers(1, 256, 100, np.uint8)
    copy = from_python(copy_bytes)
    for size in range(90):
        out = np.zeros(100, np.uint8)
        assert copy(out, 3, source, 7, 7 + size) == 3 + size
        assert out.tobytes() == bytes(3) + source[7 : 7 + size].tobytes() + bytes(97 - size)
