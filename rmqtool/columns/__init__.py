"""Messages as columns: encoders, Arrow arrays around their buffers, files of them.

``names`` lists the columns; ``encoder`` fills their buffers from a log on all cores, and from rows where
kernels cannot; ``pieces`` cuts a log into tasks. Only ``arrow``, ``files`` and ``lines`` import pyarrow, an
extra of the package; nothing else may load it.
"""

from __future__ import annotations

from importlib.util import find_spec

from rmqtool.errors import EnvironmentFailureError

_SOURCES = {"pyarrow": "pip install 'rmqtool[arrow]'", "pandas": "pip install pandas"}


def require_library(*names: str) -> None:
    """Check that libraries are installed, without loading them, else raise `EnvironmentFailureError`."""
    for name in names:
        if find_spec(name) is None:
            raise EnvironmentFailureError(f"{name} is not installed: {_SOURCES[name]} adds it")
