"""What is written beside the new store: the plan, what is lost, a map of the log, digests of all files."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from rmqtool.errors import UsageError
from rmqtool.formats.message import SMALLEST_RECORD
from rmqtool.projection import camel_case, json_object
from rmqtool.salvage.model import PLAN_SCHEMA, Lost, PartKind, SalvagePlan

if TYPE_CHECKING:
    from collections.abc import Iterator


_RESCUED, _LOST = "+", "-"


def plan_text(plan: SalvagePlan) -> str:
    """Return a plan as JSON."""
    return json.dumps(json_object(plan), indent=1) + "\n"


def read_plan(text: str) -> SalvagePlan:
    """Return the plan that ``plan_text`` wrote; its account is proven again.

    Raises:
        UsageError: It is none, or of another version.
        AccountError: It was changed, and does not add up any more.
    """
    try:
        value = json.loads(text)
        if value["schema"] != PLAN_SCHEMA:
            raise UsageError(f"a plan of {value['schema']}, not of {PLAN_SCHEMA}: make a new plan")
        plan = _built(SalvagePlan, value)
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise UsageError(f"no plan of a salvage ({failure}): make one with --plan") from failure
    if not isinstance(plan, SalvagePlan):
        raise TypeError("a plan is built of a plan's fields")
    plan.check()
    return plan


def _built(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any type of the plan's fields
    """Return a value of a type from its JSON."""
    if isinstance(kind, UnionType):
        return (
            None
            if value is None
            else _built(next(one for one in get_args(kind) if one is not type(None)), value)
        )
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{field.name: _built(hints[field.name], value[camel_case(field.name)]) for field in fields(kind)}
        )
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        if inner[-1] is Ellipsis:
            return tuple(_built(inner[0], one) for one in value)
        return tuple(_built(one, part) for one, part in zip(inner, value, strict=True))
    return _plain(kind, value)


def _plain(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any plain type
    if kind is bytes:
        return bytes.fromhex(value)
    if issubclass(kind, Enum):
        return kind(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def lost_lines(plan: SalvagePlan) -> Iterator[str]:
    """Yield a line of ndjson for every loss; nothing names the queue of those that the index alone knows."""
    for one in plan.lost:
        yield _lost_line(json_object(one))
    for place in plan.indexed:
        one = Lost("", 0, 0, 1, place, place + SMALLEST_RECORD, "indexed", place, placed=False)
        yield _lost_line(json_object(one) | dict.fromkeys(("topic", "queueId", "queueOffset")))


def _lost_line(value: dict[str, Any]) -> str:
    return json.dumps({"type": "lost"} | value, ensure_ascii=False) + "\n"


def rescue_map(plan: SalvagePlan) -> Iterator[str]:
    """Yield the lines of a map of the log as ddrescue writes it; positions count from the log's start."""
    yield f"# Rescue map of a commit log that begins at physical offset {plan.start}\n"
    yield "# current_pos  current_status\n"
    yield f"0x{plan.stop - plan.start:08X}     +\n"
    yield "#      pos        size  status\n"
    pending: tuple[int, int, str] | None = None
    for part in plan.parts:
        is_lost = part.kind in {PartKind.TOMBSTONES, PartKind.FILLER} or (
            part.kind is PartKind.BLANK and part.start not in plan.kept_blanks
        )
        status, at = _LOST if is_lost else _RESCUED, part.start - plan.start
        if pending is not None and pending[2] == status:
            pending = pending[0], pending[1] + part.length, status
            continue
        if pending is not None:
            yield _map_line(pending)
        pending = at, part.length, status
    if pending is not None:
        yield _map_line(pending)


def _map_line(entry: tuple[int, int, str]) -> str:
    return f"0x{entry[0]:08X}  0x{entry[1]:08X}  {entry[2]}\n"
