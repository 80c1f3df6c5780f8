"""What a rebuild is asked to take and to make: by other words, it makes another result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqtool.commands.rebuild.run import RebuildRequest

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a caller that a result depends on, beside the store's settings.

    Attributes:
        parts: ``consumequeue`` (with ext and batch queues), ``index``, or both, by name.
        topics: globs of topics to take; empty takes all.
        exclude_topics: globs of topics to leave out.
        until_timestamp_ms: nothing stored later.
        until_offset: physical offset to stop at.
        tag_items: which messages get an index entry for their tags; ``auto``: as the store shows.
        generations: which messages of a topic that was created again get units.
    """

    parts: tuple[str, ...]
    topics: tuple[str, ...]
    exclude_topics: tuple[str, ...]
    until_timestamp_ms: int | None
    until_offset: int | None
    tag_items: str
    generations: str

    @classmethod
    def by(cls, request: RebuildRequest) -> Asked:
        """Return what a request asks for."""
        return cls(
            tuple(sorted(request.parts)),
            request.topics,
            request.exclude_topics,
            request.until_timestamp_ms,
            request.until_offset,
            AUTO if request.tag_items is None else str(request.tag_items),
            request.generations.value,
        )

    @property
    def is_partial(self) -> bool:
        """Whether messages are left out."""
        until = self.until_timestamp_ms is not None or self.until_offset is not None
        return bool(self.topics or self.exclude_topics) or until
