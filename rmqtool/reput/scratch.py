"""Where tasks hand blocks to each other when nothing is written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.engine import runs_elsewhere
from rmqtool.errors import UsageError
from rmqtool.store.scratch import scratch_area

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rmqtool.engine import EngineOptions
    from rmqtool.store.scratch import AnyArea


def open_scratch(engine: EngineOptions, evidence_roots: Iterable[Path]) -> AbstractContextManager[AnyArea]:
    """Open a staging area that leaves nothing, in a place that all tasks see.

    Raises:
        UsageError: Tasks run on other machines, and no place is named that those see, too.
        RefusedError: It would lie inside the evidence.
        EnvironmentFailureError: It cannot be made.
    """
    if engine.scratch is None and runs_elsewhere(engine):
        raise UsageError(
            "the executors of a cluster hand blocks to each other, and temporary files of this machine are"
            " nothing to them: give --scratch DIR, a directory that this machine and all executors see, or"
            " the URL of one"
        )
    return scratch_area(evidence_roots, engine.scratch)
