"""The scripts of `fixtures/make`, as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "make"


def script(name: str) -> ModuleType:
    """Return a script's module, without running its main."""
    spec = importlib.util.spec_from_file_location(f"fixtures_make_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
