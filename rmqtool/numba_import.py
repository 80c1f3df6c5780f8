"""numba, imported so that no file of the working directory steers it.

numba takes settings from a ``.numba_config.yaml`` of the working directory, at its import and before each
compilation, where PyYAML is installed; where it is not, it warns of the file. Whoever looks at evidence often
stands in it: such a file must change nothing. PyYAML and coverage.py are loaded for nothing else.

A process that has imported numba before has its own reasons, and keeps its settings.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _not_installed(*names: str) -> Iterator[None]:
    """Let modules look for a while as if they were not there."""
    loaded = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type] # None is what import refuses
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(loaded)


def _import_unsteered() -> None:
    with _not_installed("yaml", "coverage"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A Numba config file is found")
        import numba.core.config
    numba.core.config._config_fname = os.devnull


if "numba" not in sys.modules:
    _import_unsteered()

import numba  # noqa: E402 - not before
from llvmlite import binding, ir  # type: ignore[import-untyped] # noqa: E402 - as numba, which brings it
from numba.core import cgutils, types  # noqa: E402
from numba.core.caching import CompileResultCacheImpl, FunctionCache  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

__all__ = [
    "CompileResultCacheImpl",
    "FunctionCache",
    "binding",
    "cgutils",
    "intrinsic",
    "ir",
    "numba",
    "types",
]
