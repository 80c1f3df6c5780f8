"""Interface of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from rmqtool.errors import RmqtoolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
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
        ...


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

        Raises:
            MapInterruptedError: Ctrl-C; an engine that gets all results in one piece has none to hand over.
            RmqtoolError: what the function raised, if it is one of ours.
            EngineError: anything else that happened in another process.
        """
        ...

    def close(self) -> None:
        """End processes and remove temporary files. Closing twice is harmless."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def options_of(engine: EngineOptions | Engine) -> EngineOptions:
    """Return the options of an engine, open or to be opened."""
    return engine if isinstance(engine, EngineOptions) else engine.options
