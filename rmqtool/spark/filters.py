"""Filters of a query that reading can apply, so that Spark never sees the other rows.

Spark's own filters are recognised by their names, as Spark 4.0 has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rmqtool.columns.arrow import EARLIEST_MS, LATEST_MS
from rmqtool.spark.shapes import STORE, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqtool.spark.options import ReadOptions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GLOB = frozenset("*?[")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_RANGES = {"GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "EqualTo", "EqualNullSafe"}


@dataclass(frozen=True)
class Narrowed:
    """Options with narrower bounds, and the topics and stores that are left; None: any."""

    options: ReadOptions
    topics: frozenset[str] | None = None
    stores: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no row can match."""
        options, wanted = self.options, self.options.messages
        return (
            self.topics == frozenset()
            or self.stores == frozenset()
            or _crossed(wanted.begin_ms, wanted.end_ms)
            or _crossed(options.from_offset, None if options.to_offset is None else options.to_offset - 1)
        )


def _crossed(least: int | None, most: int | None) -> bool:
    return least is not None and most is not None and least > most


def narrowed(options: ReadOptions, shape: Shape, filters: Iterable[Any]) -> tuple[Narrowed, list[Any]]:
    """Apply filters of ``pyspark.sql.datasource``, all of which must hold.

    Return also those that Spark must apply.
    """
    left, rest = Narrowed(options), []
    for one in filters:
        found = _applied(left, shape, one)
        if found is None:
            rest.append(one)
            continue
        left, is_whole = found
        if not is_whole:
            rest.append(one)
    return left, rest


def _applied(left: Narrowed, shape: Shape, one: Any) -> tuple[Narrowed, bool] | None:  # noqa: ANN401
    """Return what a filter leaves, and whether all of that matches; None if the filter is not known."""
    kind, path = type(one).__name__, tuple(getattr(one, "attribute", ()))
    if path == (STORE,) and STORE in shape.kinds and kind in {"EqualTo", "In"}:
        return replace(left, stores=_both(left.stores, _values(one))), True
    column = shape.columns.get(path[0]) if len(path) == 1 else None
    if column is None:
        return None
    if kind == "IsNotNull":
        return None if column.may_lack else (left, True)
    if column.filtered == "topic" and kind in {"EqualTo", "In"}:
        return _of_topics(left, _both(left.topics, _values(one))), True
    bound = _BOUNDS.get(column.filtered or "")
    return None if bound is None or kind not in _RANGES or one.value is None else bound(left, kind, one.value)


def _values(one: Any) -> frozenset[str]:  # noqa: ANN401
    values = one.value if type(one).__name__ == "In" else (one.value,)
    return frozenset(value for value in values if value is not None)  # nothing is equal to null


def _both(some: frozenset[str] | None, others: frozenset[str]) -> frozenset[str]:
    return others if some is None else some & others


def _of_topics(left: Narrowed, topics: frozenset[str]) -> Narrowed:
    """Return what topics leave; kernels filter by a single one."""
    wanted = left.options.messages
    if len(topics) == 1 and wanted.topic is None:
        (topic,) = topics
        if _GLOB.isdisjoint(topic):
            wanted = replace(wanted, topic=topic)
    return replace(left, topics=topics, options=replace(left.options, messages=wanted))


def _by_queue(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool] | None:
    wanted = left.options.messages
    if kind not in {"EqualTo", "EqualNullSafe"} or wanted.queue_id not in {None, value}:
        return None
    return _with_messages(left, queue_id=value), True


def _by_time(left: Narrowed, kind: str, value: datetime) -> tuple[Narrowed, bool] | None:
    if value.tzinfo is None:
        return None
    since = value - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    least, most = _range(kind, -(-micros // 1000), micros // 1000, is_whole=micros % 1000 == 0)
    wanted = left.options.messages
    bounds = {
        "begin_ms": max(least, EARLIEST_MS, *_given(wanted.begin_ms)),
        "end_ms": min(most, LATEST_MS, *_given(wanted.end_ms)),
    }
    return _with_messages(left, **bounds), True


def _by_queue_offset(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool] | None:
    least, most = _range(kind, value, value)
    if least == _LEAST:
        return None
    first = max((least, *_given(left.options.messages.from_queue_offset)))
    return _with_messages(left, from_queue_offset=first), most == _MOST


def _by_place(left: Narrowed, kind: str, value: int) -> tuple[Narrowed, bool]:
    """Narrow to the records' place; Spark still checks each record's own field."""
    least, most = _range(kind, value, value)
    begin = None if least == _LEAST else max(least, 0)
    end = None if most == _MOST else max(most + 1, 0)
    return replace(left, options=left.options.between(begin, end)), False


def _range(kind: str, least: int, most: int, *, is_whole: bool = True) -> tuple[int, int]:
    """Return the least and the largest number that match; ``least`` and ``most`` are the value, rounded."""
    if kind.startswith("GreaterThan"):
        excludes = kind == "GreaterThan" and is_whole
        return least + excludes, _MOST
    if kind.startswith("LessThan"):
        excludes = kind == "LessThan" and is_whole
        return _LEAST, most - excludes
    return least, most


def _with_messages(left: Narrowed, **changes: Any) -> Narrowed:  # noqa: ANN401
    messages = replace(left.options.messages, **changes)
    return replace(left, options=replace(left.options, messages=messages))


def _given(number: int | None) -> tuple[int, ...]:
    return () if number is None else (number,)


_BOUNDS: dict[str, Callable[[Narrowed, str, Any], tuple[Narrowed, bool] | None]] = {
    "queueId": _by_queue,
    "storeTimestamp": _by_time,
    "queueOffset": _by_queue_offset,
    "physicalOffset": _by_place,
}
