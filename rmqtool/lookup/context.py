"""A question to a store, and who is told what is met on the way to the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.lookup.explain import Explanation, Reason
from rmqtool.progress import NullProgress

if TYPE_CHECKING:
    from rmqtool.lookup.request import QueryRequest
    from rmqtool.progress import Progress
    from rmqtool.store import Store


@dataclass(frozen=True)
class QueryContext:
    """One question to one store.

    Attributes:
        store: The store.
        request: The question.
        progress: Told which structure answered, and what is wrong with it.
        explanation: Told every step.
        way_out: What the user can do about an answer that may be incomplete.
    """

    store: Store
    request: QueryRequest
    progress: Progress
    explanation: Explanation = field(default_factory=lambda: Explanation(wanted=False))
    way_out: str = "--scan reads the log itself"

    def beside(self, request: QueryRequest) -> QueryContext:
        """Return another question to the store, of which nothing is told."""
        return QueryContext(self.store, request, NullProgress())

    def doubt(self, sentence: str) -> None:
        """Say what makes it possible that messages are missed."""
        self.progress.warn(f"{sentence}; the answer may be incomplete, {self.way_out}")

    def explain_doubt(
        self, reason: Reason, sentence: str, file: str | None = None, **facts: int | str | None
    ) -> None:
        """Say it, and keep it as a step."""
        self.doubt(sentence)
        self.explanation.add(reason, sentence, file, **facts)

    def explain_nothing_at(self, offset: int) -> None:
        """Tell why there is no record at a physical offset."""
        log = self.store.commitlog
        if offset < log.start:
            message = f"log offset {offset} is expired: the log begins at {log.start}"
            self.explanation.advise(Reason.EXPIRED, message, physicalOffset=offset)
        elif offset >= log.stop:
            message = f"log offset {offset} lies after the log's files, which end at {log.stop}"
            self.explanation.advise(Reason.NO_RECORD, message, physicalOffset=offset)
        else:
            message = f"no record begins at log offset {offset}"
            self.explanation.add(Reason.NO_RECORD, message, physicalOffset=offset)
