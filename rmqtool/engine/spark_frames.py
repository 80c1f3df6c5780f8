"""Maps over a DataFrame, for sessions without a Spark context: those of Spark Connect, and serverless ones.

Each number of a range is a partition, to which a broadcast join brings its item: a pickle. Results come back
in pieces, because a message of Spark Connect holds 128 MiB.
"""

from __future__ import annotations

import pickle
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rmqtool.engine.interface import EngineError
from rmqtool.engine.spark_jobs import Jobs
from rmqtool.engine.spark_task import failure_of, run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T")
R = TypeVar("R")

_PIECE_BYTES = 1 << 20


class FrameJobs(Jobs):
    """Run maps by a session.

    Args:
        session: an open one.
    """

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - pyspark's
        super().__init__(elsewhere=True)
        self._session = session
        self._pieces: dict[int, list[bytes]] = {}

    def completed_tasks(self) -> int:
        """Count the tasks that are done and have none before them that is not: results come in order."""
        return len(self._pieces)

    def cancel(self) -> None:
        """End the running map; it fails."""
        self._session.interruptTag(self.name)

    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        from pyspark.errors import PySparkException

        self._pieces = {}
        self._session.addTag(self.name)  # to what this thread runs
        try:
            for number, piece in self._frame(function, items).toLocalIterator():
                self._pieces.setdefault(number, []).append(piece)
        except PySparkException as error:
            raise failure_of(str(error)) from None
        except OSError as error:
            raise EngineError("the connection to Spark broke", traceback.format_exc()) from error
        finally:
            self._session.removeTag(self.name)
        return [pickle.loads(b"".join(self._pieces.pop(number))) for number in range(len(items))]

    def _frame(self, function: Callable[[T], R], items: Sequence[T]) -> DataFrame:
        from pyspark.sql.types import BinaryType, LongType, StructField, StructType

        number, binary = StructField("id", LongType(), nullable=False), BinaryType()
        rows = [(place, pickle.dumps(item, pickle.HIGHEST_PROTOCOL)) for place, item in enumerate(items)]
        packed = self._session.createDataFrame(rows, StructType([number, StructField("item", binary)]))
        tasks = self._session.range(0, len(items), 1, len(items)).join(packed.hint("broadcast"), "id")
        return tasks.mapInArrow(
            partial(_run_batches, function), StructType([number, StructField("piece", binary)])
        )


def _run_batches(function: Callable[[T], R], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the function on the items of a partition, and yield each result in pieces."""
    import pyarrow as pa

    for batch in batches:
        for number, item in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            result = pickle.dumps(run_task(function, pickle.loads(item)), pickle.HIGHEST_PROTOCOL)
            for begin in range(0, len(result), _PIECE_BYTES):
                piece = result[begin : begin + _PIECE_BYTES]
                yield pa.RecordBatch.from_pydict(
                    {"id": pa.array([number], pa.int64()), "piece": pa.array([piece], pa.binary())}
                )
