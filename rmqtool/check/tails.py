"""What a verdict may rest on where the ends of files in object storage were not fetched.

What was found clean is clean in all that was looked at, and the report says what was not. But nothing is
said to be damaged, or missing, because of bytes that nobody has fetched: records could lie there, and units
lead to them. So after errors and warnings the log's tail is fetched, too, and if it is not all zeros,
everything is looked at once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.store.unfetched import is_zero, tails_told, unfetched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyRun
    from rmqtool.store import Store


class Tails:
    """The ends of a store's files that a verification has not fetched.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._proven: set[str] = set()

    def refute(self, run: VerifyRun) -> bool:
        """Tell whether errors or warnings rest on a log that goes on in what was not fetched.

        If so, nothing is taken for zeros by samples any more.

        Raises:
            SourceFailureError: What holds the store does not answer.
            EnvironmentFailureError: A file of the log cannot be read.
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
        """Yield what was not fetched, as the end of a sentence; nothing where all was."""
        left = [tail for tail in unfetched(self._store.base) if tail.path not in self._proven]
        if left:
            yield tails_told(left, self._store.base)
