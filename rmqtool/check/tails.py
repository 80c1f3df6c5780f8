"""Ends of files in object storage that were not fetched, and what a verdict may rest on without them.

A clean result holds for all that was read, and the report names the rest. But no finding of damage or loss
may rest on bytes that nobody has fetched: records could lie there, and units lead to them. So after errors
and warnings the log's tail is fetched, too, and if it is not all zeros, everything is checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.store.unfetched import is_zero, tails_text, unfetched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyRun
    from rmqtool.store import Store


class Tails:
    """The ends of a store's files that a verification has not fetched."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._proven: set[str] = set()

    def refute(self, run: VerifyRun) -> bool:
        """Whether errors or warnings rest on a log that goes on in ranges that were not fetched.

        If so, samples no longer prove zeros. A source that does not answer raises SourceFailureError.
        """
        if all(one.severity is Severity.INFO for one in run.findings):
            return False
        log = {str(segment.path) for segment in self._store.log}
        for tail in unfetched(self._store.base):
            if tail.path not in log:
                continue
            if not is_zero(tail, self._store.base):
                self._store.base.source.fetch_tails()
                return True
            self._proven.add(tail.path)
        return False

    def limits(self) -> Iterator[str]:
        """Yield the ranges that were not fetched, as the end of a sentence."""
        left = [tail for tail in unfetched(self._store.base) if tail.path not in self._proven]
        if left:
            yield tails_text(left, self._store.base)
