"""Whether the libraries are here that columns are handed over to."""

from __future__ import annotations

from importlib.util import find_spec

from rmqtool.errors import EnvironmentFailureError

_SOURCES = {"pyarrow": "pip install 'rmqtool[arrow]'", "pandas": "pip install pandas"}


def require_library(*names: str) -> None:
    """Check that libraries are installed, without loading them.

    Raises:
        EnvironmentFailureError: One is not; the message says how to get it.
    """
    for name in names:
        if find_spec(name) is None:
            raise EnvironmentFailureError(f"{name} is not installed: {_SOURCES[name]} adds it")
