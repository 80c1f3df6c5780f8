"""Libraries imported with less than they load by themselves."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager


class _Late(ModuleType):
    """A module that is imported when something is taken from it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        _drop(self.__name__, self)
        return getattr(import_module(self.__name__), name)


def _drop(name: str, module: ModuleType | None) -> None:
    """Let a name mean the module itself, which another import or thread may have loaded meanwhile."""
    if sys.modules.get(name) is module:
        sys.modules.pop(name, None)


@contextmanager
def _replaced(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    loaded = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)  # type: ignore[arg-type] # None is what import refuses
    try:
        yield
    finally:
        for name, module in modules.items():
            _drop(name, module)
        sys.modules.update(loaded)


def not_installed(*names: str) -> AbstractContextManager[None]:
    """Make modules look for a while as if they were not installed."""
    return _replaced(dict.fromkeys(names))


def imported_late(*names: str) -> AbstractContextManager[None]:
    """Give what is imported meanwhile a `_Late` instead of each of these modules, and nobody else."""
    return _replaced({name: _Late(name) for name in names if name not in sys.modules})
