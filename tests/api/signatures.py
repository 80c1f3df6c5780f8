"""The public names with their signatures, as text; ``python -m tests.api.signatures`` writes them anew."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import rmqtool
import rmqtool.progress
import rmqtool.spark

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOT = Path(__file__).with_name("signatures.txt")


def signatures() -> str:
    """Return one line for each public name, and for each field and method of a class."""
    lines: list[str] = []
    for name in sorted({*vars(rmqtool)["__all__"]} - {"__version__"}):
        lines += _lines_of(name, getattr(rmqtool, name))
    lines += _lines_of("progress.Progress", rmqtool.progress.Progress)
    lines += _lines_of("spark.register", rmqtool.spark.register)
    return "".join(f"{line}\n" for line in lines)


def _lines_of(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, type):
        if callable(value):
            yield f"{name}{inspect.signature(value)}"
        return
    yield f"class {name}({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"
    if is_dataclass(value):
        frozen = "frozen " if value.__dataclass_params__.frozen else ""  # type: ignore[attr-defined]
        yield from (f"    {frozen}{field.name}: {field.type}" for field in fields(value))
    for member in sorted(dir(value)):
        yield from _member(value, member)


def _member(owner: type, name: str) -> Iterator[str]:
    found = inspect.getattr_static(owner, name)
    if not _is_ours(found) or (name.startswith("_") and name not in {"__iter__", "__len__", "__enter__"}):
        return
    if isinstance(found, property) and found.fget is not None:
        yield f"    {name} -> {inspect.signature(found.fget).return_annotation}"
    elif inspect.isfunction(found):
        yield f"    {name}{inspect.signature(found)}"
    elif isinstance(found, Enum):
        yield f"    {name} = {found.value!r}"


def _is_ours(found: object) -> bool:
    """Whether it is written in the package: what Python adds differs between its versions."""
    function = found.fget if isinstance(found, property) else found
    return isinstance(found, Enum) or str(getattr(function, "__module__", "")).startswith("rmqtool")


if __name__ == "__main__":
    SNAPSHOT.write_text(signatures())
