"""Engines, which run one function over many items, here in threads or on Spark.

Results come in the order of the items. Only small values travel (descriptors, numpy rows); tasks write bulk
bytes into the staging area. ``local`` uses threads, as kernels release the GIL; ``spark`` a Spark of its own,
in a private Java process or on a cluster, an open session or Spark Connect. Nothing heavy is imported before
a Spark engine opens.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from rmqtool.errors import RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType

    from rmqtool.io import Location


T = TypeVar("T")
R = TypeVar("R")


class EngineError(RmqtoolError):
    """A task failed for a reason that is not one of ours, or the engine itself broke down.

    ``remote_traceback`` is the traceback of the process where it happened, empty when there is none.
    """

    def __init__(self, message: str, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.remote_traceback = remote_traceback


class MapInterruptedError(KeyboardInterrupt):
    """Interrupt of a map by Ctrl-C; ``results`` are those of completed items, by number."""

    def __init__(self, results: dict[int, Any]) -> None:
        super().__init__()
        self.results = results


@dataclass(frozen=True)
class EngineOptions:
    """Options of an engine.

    Args:
        kind: threads of this process, or Spark.
        jobs: tasks at a time; all usable CPUs when None. On a cluster, the most cores to take.
        master: Spark master URL; ``local[jobs]`` in a private Java process when None.
        spark_conf: Spark settings of the user, stronger than ours.
        log_file: where Spark's own output is appended; when None it is thrown away with the engine.
        scratch: directory for what tasks hand to each other, where that has no place beside an output, or a
            place in object storage; where temporary files belong when None. All that run tasks must see it
            under this name.
    """

    kind: Literal["local", "spark"]
    jobs: int | None = None
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    log_file: Path | None = None
    scratch: Path | Location | None = None


class LiveSession(Protocol):
    """Shape of pyspark's ``SparkSession``, as pyspark may not be installed."""

    @property
    def sparkContext(self) -> Any:  # noqa: ANN401 - pyspark's
        """Spark's context."""


class Engine(Protocol):
    """Runner of one function over many items; see the module docstring of ``rmqtool.engine``."""

    name: str
    options: EngineOptions

    def map(
        self, function: Callable[[T], R], items: Sequence[T], progress: Callable[[int], None] | None = None
    ) -> list[R]:
        """Run the function on every item and return the results in the order of the items.

        Function and items can be pickled: a function of a module, or a ``functools.partial`` of one. A task
        may run more than once (retries, speculation), so it must be harmless to repeat. ``progress`` is
        called in the calling thread with the number of items completed so far, never with a smaller one
        than before.

        When an item fails, no further ones are started. Ctrl-C and whatever ``progress`` raises end the map
        at once; an engine with processes of its own is closed by that.
        """

    def close(self) -> None:
        """End processes and remove temporary files. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def options_of(engine: EngineOptions | Engine) -> EngineOptions:
    """Return the options of an engine, open or to be opened."""
    return engine if isinstance(engine, EngineOptions) else engine.options


def usable_cpus() -> int:
    """Count the CPUs that this process may use; in a container these can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalEngine(Engine):
    """Engine with threads of this process, ``jobs`` at a time; one job runs in the calling thread."""

    name: str = "local"

    def __init__(self, jobs: int | None = None, scratch: Path | Location | None = None) -> None:
        self.options = EngineOptions("local", jobs, scratch=scratch)
        self._jobs = jobs or usable_cpus()
        self._closed = False

    def map(
        self, function: Callable[[T], R], items: Sequence[T], progress: Callable[[int], None] | None = None
    ) -> list[R]:
        """Run the function on every item, see ``Engine.map``; its exceptions are raised unchanged.

        Items that run when another fails, or at Ctrl-C, are waited for: cleaning up after a failed map must
        not race with a thread that still writes.
        """
        self._refuse_when_closed()
        threads = min(self._jobs, len(items))
        if threads > 1:
            return _map_in_threads(function, items, threads, progress)
        results: list[R] = []
        try:
            for item in items:
                results.append(function(item))
                if progress is not None:
                    progress(len(results))
        except KeyboardInterrupt:
            raise MapInterruptedError(dict(enumerate(results))) from None
        return results

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise EngineError("the local engine is closed already")

    @contextmanager
    def beside(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[Callable[[], list[R]]]:
        """Run the function on every item in threads of its own, see `beside`.

        With one job only when waited for.
        """
        self._refuse_when_closed()
        if self._jobs == 1:
            yield partial(self.map, function, items)
            return
        from rmqtool.engine.threads import at_work, follow

        futures: list[Future[R]] = []
        with at_work(function, items, self._jobs, futures):
            yield partial(follow, futures)

    def close(self) -> None:
        """Refuse further work; threads live only as long as one map."""
        self._closed = True


def beside(
    engine: Engine, function: Callable[[T], R], items: Sequence[T]
) -> AbstractContextManager[Callable[[], list[R]]]:
    """Run a map while the caller does other work: here in threads, elsewhere only when waited for.

    The context's function waits for the results, in the order of the items, and raises as ``Engine.map``.
    Leaving the context without calling it starts no further items.
    """
    if isinstance(engine, LocalEngine):
        return engine.beside(function, items)
    return nullcontext(partial(engine.map, function, items))


def _map_in_threads(
    function: Callable[[T], R], items: Sequence[T], threads: int, progress: Callable[[int], None] | None
) -> list[R]:
    from rmqtool.engine.threads import at_work, follow  # and logging, which look-ups do without

    futures: list[Future[R]] = []
    try:
        with at_work(function, items, threads, futures):
            return follow(futures, progress)
    except KeyboardInterrupt:
        ended = {number: one for number, one in enumerate(futures) if one.done() and not one.cancelled()}
        results = {number: one.result() for number, one in ended.items() if one.exception() is None}
        raise MapInterruptedError(results) from None


def together(items: Iterable[T], size_of: Callable[[T], int], least: int) -> Iterator[list[T]]:
    """Yield items in groups, in their order: each of a size of at least ``least``, but for the last."""
    group: list[T] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= least:
            yield group
            group, size = [], 0
    if group:
        yield group
