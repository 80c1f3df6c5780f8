"""Libraries that quick tests do without: those of the extra ``dev``, which some tiers need."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

from tests.strategies import REQUIRED


def library(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a library; where it is missing, the tests of the module that asks are skipped, or fail."""
    if os.environ.get(REQUIRED) == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"needs {name} (pip install .[dev])")
