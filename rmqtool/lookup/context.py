"""A question to a store, and who is told what is met on the way to the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.lookup.explain import Explanation, Reason
from rmqtool.lookup.left_out import LeftOut
from rmqtool.lookup.limit import Limit
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
        limit: How many messages are wanted, and whether there are more.
        left_out: What was met and is no answer.
    """

    store: Store
    request: QueryRequest
    progress: Progress
    explanation: Explanation = field(default_factory=lambda: Explanation(wanted=False))
    way_out: str = "--scan reads the log itself"
    limit: Limit = field(init=False)
    left_out: LeftOut = field(init=False)

    def __post_init__(self) -> None:
        request = self.request
        of_place = request.queue_offset is not None
        object.__setattr__(self, "limit", Limit(request.max_messages, of_place=of_place))
        object.__setattr__(self, "left_out", LeftOut(self.store))

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
        missing = self.left_out.missing_part(offset)
        if missing is not None:
            self.left_out.add(Reason.LOG_MISSING, offset)
            self.explanation.add(Reason.LOG_MISSING, missing, physicalOffset=offset)
        elif offset < log.start:
            message = f"log offset {offset} is expired: the log begins at {log.start}"
            self.explanation.advise(Reason.EXPIRED, message, physicalOffset=offset)
        elif offset >= log.stop:
            message = f"log offset {offset} lies after the log's files, which end at {log.stop}"
            self.explanation.advise(Reason.NO_RECORD, message, physicalOffset=offset)
        else:
            message = f"no record begins at log offset {offset}"
            self.explanation.add(Reason.NO_RECORD, message, physicalOffset=offset)
