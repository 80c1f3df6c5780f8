"""An opened store: its place, its settings, and summaries of it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.options import names_of
from rmqtool.store import PathKind, Setting
from rmqtool.store import Store as StoreFiles
from rmqtool.store.kinds import ONLY_SHOWN, UNIT_QUEUE_KINDS
from rmqtool.times import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import tzinfo

    from rmqtool.account.lost import LostMessage
    from rmqtool.api.arguments import Time
    from rmqtool.commands.info import StoreSummary
    from rmqtool.commands.offsets import Progress as ConsumerProgress
    from rmqtool.commands.retention import RetentionReport
    from rmqtool.lookup.delayed import DelayedMessages
    from rmqtool.recovery import Prediction


class OpenedStore:
    """A store, or a part of one, as it was listed at its first use.

    Files that a running broker adds or extends afterwards are seen by opening it again.

    Args:
        files: The store that the packages below the API read.
        zone: Of times without one; None is this machine's.
    """

    def __init__(self, files: StoreFiles, zone: tzinfo | None) -> None:
        self._files = files
        self._zone = zone
        self._closed = False

    def __reduce__(self) -> tuple[type[Self], tuple[StoreFiles, tzinfo | None]]:
        """Travel as what was opened."""
        return type(self), (self.files, self._zone)

    @property
    def path(self) -> Path:
        """Return the opened path or URL, absolute.

        Raises:
            UsageError: It is no path of this machine's; `location` names it.
        """
        if self._files.place.path.local_path() is None:
            raise UsageError(f"{self.location}: is not a path of this machine; use Store.location")
        return Path(self.location)

    @property
    def location(self) -> str:
        """Return the opened path as messages name it: absolute, or as a URL."""
        return str(self._files.place.path)

    @property
    def kind(self) -> str:
        """Return what it is: ``store``, or the part's name as of `rmqtool.open`."""
        return self._files.kind.value

    @property
    def files(self) -> StoreFiles:
        """Return the store that the packages below the API read; it may change with every release.

        Raises:
            UsageError: The store is closed.
        """
        if self._closed:
            raise UsageError(f"{self.location}: this store is closed; open it again")
        return self._files

    @property
    def settings(self) -> dict[str, Setting]:
        """Return the settings in effect by name, each with its origin: given, inferred or default."""
        return {setting.name: setting for setting in self.files.settings}

    def topic_names(self) -> tuple[str, ...]:
        """Return the topics that have queues, by name.

        Raises:
            EnvironmentFailureError: A directory may not be read.
        """
        return tuple(sorted(set(chain.from_iterable(map(self.files.topics, UNIT_QUEUE_KINDS)))))

    def info(self, *, max_findings: int = 10) -> StoreSummary:
        """Sum up the store from headers and ends of its files: ranges, settings, queues, index, lock.

        Args:
            max_findings: Findings of one code that are kept; the rest is counted.
        """
        from rmqtool.commands.info import summarise

        return summarise(self._examined(), max_findings)

    def offsets(
        self, *, topic: str | Iterable[str] = (), group: str | None = None
    ) -> tuple[ConsumerProgress, ...]:
        """Return consumer lag and out-of-range offsets.

        Args:
            topic: A glob over the topic, or several; none means all.
            group: A glob over the group; delay levels and the timer have none.

        Raises:
            UsageError: It is only a part of a store.
            EnvironmentFailureError: A queue's directory or file cannot be read.
        """
        from rmqtool.commands.offsets import progress_of

        if self.kind != PathKind.STORE:
            raise UsageError(
                f"{self.location}: is not a store root; offsets are compared with all queues of a store"
            )
        return tuple(progress_of(self.files, names_of(topic), group))

    def retention(self, *, at: Time | None = None, disk_ratio: float | None = None) -> RetentionReport:
        """Return the files that a broker deletes, when each is due, and the messages that go with them.

        Args:
            at: Time of the broker's runs; None is the next at which a file goes.
            disk_ratio: Fullness of the disk in percent; None: below every limit.

        Raises:
            UsageError: It is only a part of a store.
            EnvironmentFailureError: Its log is none that is deleted by these rules, or a file cannot be read.
        """
        from rmqtool.commands.retention import retention_of

        if self.kind != PathKind.STORE:
            raise UsageError(f"{self.location}: is not a store root; a broker deletes files of whole stores")
        return retention_of(self.files, None if at is None else epoch_ms(at, self._zone), disk_ratio)

    def delayed(self, *, at: Time = "now") -> tuple[DelayedMessages, ...]:
        """Return the messages that wait for their time, by delay level and in the timer.

        Args:
            at: Time at which one is overdue.

        Raises:
            UsageError: It is only a part of a store.
            EnvironmentFailureError: A file cannot be read.
        """
        from rmqtool.lookup.delayed import delayed_messages

        if self.kind != PathKind.STORE:
            raise UsageError(f"{self.location}: is not a store root; its levels have offsets in config/")
        return tuple(delayed_messages(self.files, epoch_ms(at, self._zone)))

    def predict_recovery(
        self, release: str | None = None, *, lost: Callable[[LostMessage], object] | None = None
    ) -> Prediction:
        """Predict the next start of a broker on the store, which stays as it is.

        Args:
            release: The broker's, such as ``5.3.3``, ``4.9`` or ``5.x``; None is that of the store's own.
            lost: Receives every message that will be lost, one by one; the prediction then adds them up.

        Raises:
            UsageError: The rules of that release are not known, or it is only a part of a store.
            EnvironmentFailureError: A file cannot be opened or read.
        """
        from rmqtool.recovery.predict import predict_recovery
        from rmqtool.releases import release_named

        files = self.files
        broker = files.settings.release if release is None else release_named(release)
        return predict_recovery(files, broker, lost)

    def close(self) -> None:
        """Close the files; any later use of the store is an error."""
        self._closed = True
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rmqtool.Store {self.kind} {self.location!r}{' (closed)' if self._closed else ''}>"

    def _examined(self) -> StoreFiles:
        """Return the files; `EnvironmentFailureError` if there is nothing but settings."""
        if self.kind in ONLY_SHOWN:
            raise EnvironmentFailureError(f"{self.location}: {ONLY_SHOWN[self.kind]}")
        return self.files
