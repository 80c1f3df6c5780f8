"""Maps as jobs of Spark, one after the other, whatever they are made of there."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rmqtool.engine.spark_plan import Planner, names_objects, run_planned
from rmqtool.errors import UnseenFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")


class Jobs(ABC):
    """Run one map after the other on a Spark that somebody else ends.

    Args:
        elsewhere: whether executors may be other machines than this.
    """

    def __init__(self, *, elsewhere: bool) -> None:
        self.name = f"rmqtool-{uuid.uuid4().hex}"
        self._elsewhere = elsewhere

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a map to its end and return the results in the order of the items.

        Where executors are other machines, or read an object store, what they read is proven. A failure of
        that is final unless the file has changed here meanwhile, too.

        Raises:
            RmqtoolError: what the function raised, if it is one of ours.
            EngineError: any other failure of a task, or the connection broke.
        """
        if not self._elsewhere and not names_objects(items):
            return self._collect(function, items)
        planner = Planner()
        while True:
            try:
                run = partial(run_planned, function, elsewhere=self._elsewhere)
                done = self._collect(run, planner.tasks(items))
                return planner.values(done)
            except UnseenFileError as failure:
                if not planner.is_outdated(failure.path):
                    raise

    @abstractmethod
    def completed_tasks(self) -> int:
        """Count the tasks of the running map that are done; fewer where Spark cannot tell."""

    @abstractmethod
    def cancel(self) -> None:
        """End the running map; it fails."""

    @abstractmethod
    def _collect(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Run a map, each item as a task of its own that Spark balances and tries again."""
