"""Our dataclasses are those of the standard library, in all that one can see of them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Hashable
from dataclasses import fields
from operator import lt
from typing import TYPE_CHECKING, Any

import pytest

from rmqtool import classes

if TYPE_CHECKING:
    from collections.abc import Callable

_DECORATORS: dict[str, Callable[..., Any]] = {
    "ours": classes.dataclass,
    "theirs": dataclasses.dataclass,
}
_FORMS = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"kw_only": True},
    {"unsafe_hash": True},
    {"order": True},
    {"frozen": True, "slots": True, "order": True},
    {"eq": False, "frozen": True},
]


def _made(decorate: Callable[..., Any], form: dict[str, bool]) -> tuple[type, type]:
    @decorate(**form)
    class Pair:
        """Two numbers."""

        first: int
        second: int = 2
        later: list[int] = dataclasses.field(default_factory=list, compare=False)
        hidden: int = dataclasses.field(default=3, repr=False, kw_only=True)
        own: list[int] = dataclasses.field(default_factory=lambda: [7], init=False, repr=False, compare=False)
        fixed: int = dataclasses.field(default=5, init=False)

    @decorate(**form)
    class Triple(Pair):
        third: int = 9

    return Pair, Triple


def _tried(action: Callable[..., object], *arguments: object, **named: object) -> object:
    try:
        return action(*arguments, **named)
    except (TypeError, AttributeError) as failure:
        return type(failure), str(failure)


def _seen(pair: Any, triple: Any) -> list[str]:  # noqa: ANN401 - classes of either kind
    """Return what can be seen of the classes and their instances."""
    seen: list[object] = [pair.__doc__, pair.__match_args__, [field.name for field in fields(triple)]]
    for cls in (pair, triple):
        seen += [
            _tried(cls),
            _tried(cls, 1, 2, [3]),
            _tried(cls, first=1, no=2),
            _tried(cls, 1, 2, [3], 4, 5),
        ]
        pairs = [cls(first=1), cls(first=1), cls(first=1, second=4, hidden=0), pair(first=1)]
        seen += [repr(pairs), [left == right for left in pairs for right in [*pairs, 1]]]
        if cls.__hash__ is not object.__hash__:
            seen.append(_tried(lambda pairs=pairs: [hash(left) == hash(pairs[0]) for left in pairs]))
        made = pairs[0]
        seen += [made.later, made.own, made.fixed, made.own is pairs[1].own, hasattr(made, "__dict__")]
        changed = dataclasses.replace(made, second=8)
        seen += [changed, dataclasses.asdict(changed), copy.copy(changed), copy.deepcopy(changed).own]
        seen += [_tried(setattr, made, "first", 5), made.first, _tried(lt, made, changed)]
        seen += [_tried(delattr, made, "first"), _tried(getattr, made, "first")]
    return [repr(value) for value in seen]


@pytest.mark.parametrize("form", _FORMS, ids=str)
def test_a_dataclass_is_that_of_the_standard_library(form: dict[str, bool]) -> None:
    ours, theirs = (_seen(*_made(decorate, form)) for decorate in _DECORATORS.values())
    assert ours == theirs


@classes.dataclass(frozen=True, slots=True)
class _Kept:
    name: str
    parts: tuple[int, ...] = ()


@classes.dataclass
class _Checked:  # noqa: PLW1641 - it has none
    size: int = 0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("a size below 0")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Checked)

    def __repr__(self) -> str:
        return "checked"


class _Derived(_Kept):
    """No dataclass: its own attribute can be set."""


def test_instances_are_pickled() -> None:
    kept = pickle.loads(pickle.dumps(_Kept("a", (1, 2))))
    assert (kept, kept.parts) == (_Kept("a", (1, 2)), (1, 2))


def test_own_methods_stay_and_values_are_checked() -> None:
    assert (_Checked(1), repr(_Checked())) == (_Checked(2), "checked")
    assert not isinstance(_Checked(), Hashable)
    with pytest.raises(ValueError, match="below 0"):
        _Checked(-1)


def test_a_class_derived_from_a_frozen_one_has_attributes_of_its_own() -> None:
    derived: Any = _Derived("a")
    derived.more = 5
    assert derived.more == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        derived.name = "b"


def test_a_circle_of_instances_is_shown() -> None:
    @classes.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")
