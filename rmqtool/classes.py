"""Dataclasses as ``dataclasses`` makes them, in a tenth of the time.

There, each class has its methods compiled when it is defined: 0.6 ms for a frozen one, of which a command
loads up to a hundred. Here, all share theirs, and ``__init__`` is compiled for the first instance.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, field, fields, is_dataclass, replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

__all__ = ["dataclass", "field", "fields", "is_dataclass", "replace"]


def _dataclass(cls: Any = None, /, *, frozen: bool = False, unsafe_hash: bool = False, **more: bool) -> Any:  # noqa: ANN401 - a class, or what makes one
    """Make a class a dataclass; rare ones are left to ``dataclasses``."""
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, unsafe_hash=unsafe_hash, **more)
    if not more.keys() <= {"slots", "kw_only"}:
        return dataclasses.dataclass(cls, frozen=frozen, unsafe_hash=unsafe_hash, **more)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature
    has_hash = "__hash__" in vars(cls) and not (cls.__hash__ is None and "__eq__" in vars(cls))
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **more)
    compared = [part.name for part in fields(cls) if part.compare]
    key = attrgetter(*compared) if compared else type
    methods = {"__init__": _first_init(cls, frozen=frozen), "__eq__": _equality(key), "__repr__": _repr}
    if frozen:
        methods |= {f"__{verb}attr__": _refusal(cls, verb) for verb in ("set", "del")}
    if frozen and more.get("slots"):
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name in methods.keys() - vars(cls).keys():
        setattr(cls, name, methods[name])
    if not has_hash:
        cls.__hash__ = (lambda self: hash(key(self))) if frozen or unsafe_hash else None
    return cls


def _equality(key: Callable[[Any], object]) -> Callable[[Any, Any], Any]:
    def equal(self: object, other: object) -> Any:  # noqa: ANN401 - or NotImplemented
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _refusal(cls: Any, verb: str) -> Callable[..., None]:  # noqa: ANN401
    """Return what keeps fields from being set or deleted; other attributes of a derived class may be."""

    def refuse(self: object, name: str, *value: object) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
        getattr(super(cls, self), f"__{verb}attr__")(name, *value)

    return refuse


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401
    shown = [f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[object]:  # noqa: ANN401
    return [getattr(self, part.name) for part in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:  # noqa: ANN401
    for part, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, part.name, value)


def _first_init(cls: Any, *, frozen: bool) -> Callable[..., None]:  # noqa: ANN401
    """Return what compiles ``__init__``, puts it in its own place, and calls it."""

    def initialize(self: object, *values: object, **named: object) -> None:
        cls.__init__ = _compiled_init(cls, frozen=frozen)
        cls.__init__(self, *values, **named)

    return initialize


def _compiled_init(cls: Any, *, frozen: bool) -> Any:  # noqa: ANN401
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    given, named, lines = ["self"], ["*"], ["pass"]
    for part in fields(cls):
        names |= {f"_default_{part.name}": part.default, f"_make_{part.name}": part.default_factory}
        if part.init:
            (named if part.kw_only else given).append(part.name + _default(part))
        elif part.default_factory is MISSING and (part.default is MISSING or not hasattr(cls, "__slots__")):
            continue  # it is an attribute of the class, or set later
        value = _value(part)
        lines.append(f"_set(self, {part.name!r}, {value})" if frozen else f"self.{part.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = f"def __init__({', '.join(given + named[len(named) == 1 :])}): "
    exec(head + "; ".join(lines), names)
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _default(part: Field[Any]) -> str:
    if part.default_factory is not MISSING:
        return "=_missing"
    return "" if part.default is MISSING else f"=_default_{part.name}"


def _value(part: Field[Any]) -> str:
    name = part.name
    if part.default_factory is not MISSING:
        return f"_make_{name}() if {name} is _missing else {name}" if part.init else f"_make_{name}()"
    return name if part.init else f"_default_{name}"


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
