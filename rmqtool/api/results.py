"""Iterators of rows, which also keep the damage and the remarks met on the way."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from rmqtool.errors import UnansweredError
from rmqtool.findings import FindingLog

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import DataclassInstance

    from rmqtool import rows
    from rmqtool.commands.diff import Difference, StoreComparison
    from rmqtool.commands.query import Explanation, KeyQuestion, Query, Reason, Step
    from rmqtool.commands.query.consumption import Consumption
    from rmqtool.progress import RecordingProgress

R = TypeVar("R")


class Rows(Iterator[R], Generic[R]):
    """Rows, each made on request; one pass, by one thread.

    Damage in the files raises no exception: `findings` collects it while rows are drawn. Close
    it, or use it as a context manager, to close files before the last row.

    Attributes:
        findings: The damage met so far.
    """

    def __init__(
        self,
        rows_: Generator[R],
        findings: FindingLog,
        remarks: RecordingProgress,
        kind: type[DataclassInstance] | None = None,
    ) -> None:
        self._rows = rows_
        self._remarks = remarks
        self._kind = kind
        self._table: pa.Table | None = None
        self.findings = findings

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        return next(self._rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was worth knowing so far, such as which structure answers."""
        return tuple(self._remarks.notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what nobody should miss so far, such as why something may be missing."""
        return tuple(self._remarks.warnings)

    def close(self) -> None:
        """Draw no more rows, and close the files."""
        self._rows.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand over the rows that are left as columns: to ``polars.DataFrame``, ``pyarrow.table``, DuckDB.

        They are drawn once and kept, as some readers draw twice.

        Raises:
            EnvironmentFailureError: pyarrow is not installed.
        """
        from rmqtool.columns import require_library

        require_library("pyarrow")
        if self._table is None:
            self._table = self._drawn()
        return self._table.__arrow_c_stream__(requested_schema)

    def _drawn(self) -> pa.Table:
        from rmqtool.columns import ColumnChoice
        from rmqtool.columns.arrow import messages_table, rows_table

        if self._kind is None:
            return messages_table(cast("Iterator[rows.Row]", self), ColumnChoice())
        return rows_table(cast("Iterator[DataclassInstance]", self), self._kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rmqtool.{type(self).__name__}, {len(self.findings)} findings so far>"


def collected(
    every: Iterable[rows.Row], kinds: type[R] | tuple[type[R], ...], findings: FindingLog
) -> Generator[R]:
    """Yield the rows of some kinds; damage becomes findings, the rest is left out."""
    from rmqtool.rows import Damage

    for row in every:
        if isinstance(row, kinds):
            yield row
        elif isinstance(row, Damage):
            findings.add(row.finding())


def rows_of(
    every: Iterable[rows.Row],
    kinds: type[R] | tuple[type[R], ...],
    remarks: RecordingProgress,
    limit: int | None = None,
) -> Rows[R]:
    """Return the rows of some kinds, at most so many."""
    findings = FindingLog()
    kept = collected(every, kinds, findings)
    kind = kinds[0] if isinstance(kinds, tuple) else kinds
    return Rows(kept if limit is None else first_of(kept, limit), findings, remarks, cast("Any", kind))


def first_of(every: Generator[R], limit: int) -> Generator[R]:
    """Yield at most so many."""
    try:
        yield from islice(every, limit)
    finally:
        every.close()


class Answer(Rows["rows.Message"]):
    """The messages that answer a query, each read and compared before it comes.

    Raises, while it is drawn:
        UnansweredError: The structure that should answer cannot.
    """

    def __init__(
        self, query: Query, explanation: Explanation, remarks: RecordingProgress, *, decompress: bool
    ) -> None:
        self._query = query
        self._decompress = decompress
        self._explanation = explanation
        super().__init__(self._messages(), query.findings, remarks)

    def pairs(self) -> Iterator[tuple[KeyQuestion | None, rows.Message]]:
        """Yield messages, each with the one of many keys that it answers; by key, in their order."""
        from rmqtool.rows import Message

        for question, row in self.marked():
            if isinstance(row, Message):
                yield question, row

    def marked(self) -> Iterator[tuple[KeyQuestion | None, rows.Message | rows.Damage]]:
        """Yield the same, and the findings about a message before it."""
        from rmqtool.rows import Damage, Message

        for message, question in self._query.answers():
            for row in self._unpacked(message):
                if isinstance(row, (Message, Damage)):
                    yield question, row
        if self._query.unanswered is not None:
            raise UnansweredError(f"{self._query.unanswered}; --scan walks the log itself")

    def _unpacked(self, row: rows.Row) -> Iterable[rows.Row]:
        if not self._decompress:
            return (row,)
        from rmqtool.rows.bodies import decompressed

        return decompressed([row], self._remarks)

    def _messages(self) -> Generator[rows.Message]:
        for _, message in self.pairs():
            yield message

    def consumption(self, message: rows.Message) -> Consumption | None:
        """Return how far the group of ``consumed_by`` has come with a message; None if none was named."""
        judge = self._query.judge
        return None if judge is None else judge.consumption(message.physical_offset)

    @property
    def missing_group(self) -> str | None:
        """Say that the store has no group of that name, and which may be meant; None if it has."""
        judge = self._query.judge
        return None if judge is None else judge.missing_group

    @property
    def unanswered(self) -> str | None:
        """Return why the structure that should answer cannot; None if it can, or was not read yet."""
        return self._query.unanswered

    @property
    def scans(self) -> bool:
        """Return whether the log itself is walked: on request, or for lack of an index."""
        return self._query.scans

    @property
    def lost(self) -> Mapping[int, Sequence[KeyQuestion]]:
        """Return physical offsets of requested messages that were lost, with the keys that led there.

        They are known once all messages are drawn.
        """
        return self._query.lost

    @property
    def is_truncated(self) -> bool:
        """Whether there are more messages than ``max`` let through; known once all are drawn."""
        return self._query.limit.words is not None

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps to the answer so far, those first that decide it.

        They are all with ``explain=True``, else those that help further.
        """
        return tuple(self._explanation.by_weight)

    @property
    def left_out(self) -> dict[Reason, int]:
        """Return how many steps were met beyond those that are kept, by what they are about."""
        return self._explanation.left_out

    @property
    def hints(self) -> tuple[str, ...]:
        """Return suggestions where nothing was found."""
        return tuple(self._explanation.advice)


class Differences(Iterator["Difference"]):
    """The differences of two stores, each made on request; one pass, by one thread.

    Attributes:
        comparison: The counts so far.
    """

    def __init__(self, differences: Iterator[Difference], comparison: StoreComparison) -> None:
        self._found = differences
        self.comparison = comparison

    def __next__(self) -> Difference:
        return next(self._found)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was not compared so far, or differs and means nothing."""
        return tuple(self.comparison.notes)

    def is_equal(self, *, replica: bool = False) -> bool:
        """Compare to the end; whether nothing differs, and no log is damaged.

        Args:
            replica: Let bounds of the logs and checkpoints differ, as between replicas at work.
        """
        for _ in self._found:
            pass
        return not self.comparison.is_damaged and not self.comparison.differs(replica=replica)

    def __repr__(self) -> str:
        return f"<rmqtool.Differences, {self.comparison.counts.total()} counted so far>"
