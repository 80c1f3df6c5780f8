"""Everything that can be asked of a store."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from rmqtool.api.arguments import check_least, names_of, target_of, time_ms
from rmqtool.api.reads import ReadStore
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.progress import NullProgress
from rmqtool.store.kinds import UNIT_QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Unpack

    from rmqtool.api.arguments import AnyStore, Time
    from rmqtool.api.engines import AnyEngine
    from rmqtool.api.index import Index
    from rmqtool.api.queue import Queue
    from rmqtool.api.results import Differences
    from rmqtool.api.salvaging import SalvageOptions
    from rmqtool.check.model import VerifyReport
    from rmqtool.commands.rebuild.generations import Generations
    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.commands.repair.model import RepairReport
    from rmqtool.commands.salvage import SalvageReport
    from rmqtool.commands.topics import TopicsReport
    from rmqtool.progress import Progress
    from rmqtool.recovery import LostMessage, Prediction
    from rmqtool.salvage.model import SalvagePlan


class Store(ReadStore):
    """A store, or a part of one, opened by `rmqtool.open`; iteration yields the messages of its log.

    It is what was there when it was first looked at: files that a running broker adds or extends later are
    seen by opening it anew. Several threads may ask at once, and several stores may be open.

    Options are those of the command line, with the same names. Every method that takes ``progress`` tells it
    of stages and remarks (`rmqtool.progress.Progress`); without one nobody is told.
    """

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue.

        Raises:
            EnvironmentFailureError: It is not there.
        """
        from rmqtool.api.queue import Queue

        files = self.files
        for kind in UNIT_QUEUE_KINDS:
            found = files.queue(topic, queue_id, kind)
            if found is not None:
                return Queue(self, found, files.commitlog.start)
        raise EnvironmentFailureError(f"{self.location}: no queue {topic}/{queue_id}; Store.queues() has all")

    def queues(self, topic: str | None = None) -> tuple[Queue, ...]:
        """Return the queues of a topic, or all, by kind, topic and number.

        Raises:
            EnvironmentFailureError: A directory may not be read.
        """
        from rmqtool.api.queue import Queue

        files = self.files
        found = chain.from_iterable(files.queues(kind, topic) for kind in UNIT_QUEUE_KINDS)
        return tuple(Queue(self, one, files.commitlog.start) for one in found)

    def index(self) -> Index:
        """Return the hash index."""
        from rmqtool.api.index import Index

        return Index(self, self.files)

    def topics(
        self,
        *,
        queues: bool = False,
        topic: str | Iterable[str] = (),
        kind: str | Iterable[str] = (),
        sort: str = "bytes",
        top: int | None = None,
        progress: Progress | None = None,
    ) -> TopicsReport:
        """Add up the log by topic: records, bytes, times, rate, largest record, backlog.

        Every record of the log counts where it lies, under its stored topic: half and op messages under the
        broker's topics of that name, an inner batch as one. Bodies are not checked. Of what is not there any
        more, because it has expired, nothing is known.

        Args:
            queues: A row for each queue instead of each topic.
            topic: Globs of topics to show.
            kind: Whose topics to show: ``ordinary``, ``retry``, ``dead-letter``, ``broker``.
            sort: ``bytes``, ``messages``, ``newest``, ``oldest``, ``rate``, ``largest``, ``backlog`` or
                ``name``.
            top: At most so many rows; what is left out is counted.
            progress: Told what is going on.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: No commit log is there, or a file cannot be opened or read.
        """
        from rmqtool.api.adding_up import topics_request
        from rmqtool.commands.topics import topics_of

        check_least(1, top=top)
        told = progress or NullProgress()
        request = topics_request(
            self._examined(),
            told,
            by_queue=queues,
            topics=names_of(topic),
            kinds=names_of(kind),
            order=sort,
            top=top,
        )
        return topics_of(request, told)

    def verify(
        self,
        *,
        level: int = 3,
        max_findings: int = 100,
        live: bool = False,
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check the store, and say what is wrong.

        Args:
            level: 0 layout, 1 each file on its own, 2 derived files against the log, 3 completeness.
            max_findings: Findings of one code that are kept; the rest is counted.
            live: Read a store whose lock a broker holds.
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
            jobs: Tasks at a time; None is all cores.
            progress: Told what is going on.

        Raises:
            UsageError: An argument makes no sense.
            RefusedError: A broker holds the store's lock, and ``live`` does not say to go on.
            EnvironmentFailureError: A directory cannot be listed, or scratch files cannot be written.
            VerifyInterruptedError: Ctrl-C; it carries the report so far.
        """
        from rmqtool.api.engines import engine_of
        from rmqtool.check.model import VerifyRequest
        from rmqtool.check.run import verify

        check_least(1, max_findings=max_findings)
        options, opened = engine_of(engine, jobs)
        request = VerifyRequest(
            self._examined(), level=level, engine=options, max_findings=max_findings, live=live
        )
        return verify(request, progress or NullProgress(), opened)

    def predict_recovery(
        self, release: str | None = None, *, lost: Callable[[LostMessage], object] | None = None
    ) -> Prediction:
        """Tell what the next start of a broker would do with the store; nothing is done to it.

        Args:
            release: The broker's, such as ``5.3.3``, ``4.9`` or ``5.x``; None is that of the store's own.
            lost: Told every message that will be lost, one by one; the prediction then adds them up.

        Raises:
            UsageError: The rules of that release are not known, or it is only a part of a store.
            EnvironmentFailureError: A file cannot be opened or read.
        """
        from rmqtool.recovery import predict_recovery
        from rmqtool.releases import release_named

        files = self.files
        broker = files.settings.release if release is None else release_named(release)
        return predict_recovery(files, broker, lost)

    def diff(self, other: Store, *, max_differences: int = 20) -> Differences:
        """Compare with another store, or the same part of one, by what is said rather than by bytes.

        Args:
            other: The other; ``a`` in a difference is what this store says, ``b`` what that one says.
            max_differences: Told of each log, queue or index; the rest is counted.

        Raises:
            UsageError: They are not of one kind; while differences are drawn.
            EnvironmentFailureError: A file cannot be read; while differences are drawn.
        """
        from rmqtool.api.results import Differences
        from rmqtool.commands.diff.model import Comparison
        from rmqtool.commands.diff.run import diff_stores

        check_least(1, max_differences=max_differences)
        comparison = Comparison(max_differences)
        return Differences(diff_stores(self._examined(), other._examined(), comparison), comparison)

    def repair(
        self,
        *,
        plan: bool = False,
        undo: bool = False,
        only: str | Iterable[str] = (),
        config: Mapping[str, str] | None = None,
        agreed: Callable[[RepairReport], bool] | None = None,
        command: str = "Store.repair",
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> RepairReport:
        """Mend the store in place, where that cannot lose data; or finish, or undo, such a repair.

        It is the only method that writes into a store, by renames that ``undo`` takes back to the byte. Open
        the store anew afterwards: this object knows the files of before.

        Args:
            plan: Tell what would be done, and write nothing.
            undo: Take the newest repair back.
            only: Parts to mend: ``config``, ``consumequeue``, ``index``, ``checkpoint``, ``abort``,
                ``strays``; all by default.
            config: What damaged files of settings get, by name, where the doctor's choice is not obvious.
            agreed: Shown the plan before anything is written; tells whether to go on.
            command: How it was called, for the journal.
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
            jobs: Tasks at a time; None is all cores.
            progress: Told what is going on.

        Raises:
            UsageError: It is no store root, or an argument makes no sense.
            RefusedError: A broker holds the lock, or has worked on the store since the repair to be undone.
            EnvironmentFailureError: A file cannot be read or written; run it again to finish, or undo.
        """
        from rmqtool.api.repairing import repaired

        return repaired(
            self,
            plan=plan,
            undo=undo,
            only=names_of(only),
            config=config or {},
            agreed=agreed,
            command=command,
            engine=engine,
            jobs=jobs,
            progress=progress or NullProgress(),
        )

    def rebuild(
        self,
        out: AnyStore | None = None,
        *,
        parts: str | Iterable[str] = ("consumequeue", "index"),
        compare: bool = False,
        dry_run: bool = False,
        topic: str | Iterable[str] = (),
        exclude_topic: str | Iterable[str] = (),
        until_timestamp: Time | None = None,
        until_offset: int | None = None,
        tag_items: str = "auto",
        generations: str = "auto",
        lost: Callable[[LostMessage], object] | None = None,
        salvage: bool = False,
        live: bool = False,
        max_findings: int = 10,
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> RebuildReport:
        """Build ``consumequeue/`` and ``index/`` anew from the commit log, outside of the store.

        Args:
            out: The directory to make, which appears complete or not at all; it must not exist, or be empty.
                In object storage, it is complete when ``manifest.json`` is there. None with ``compare`` or
                ``dry_run``.
            parts: ``consumequeue``, ``index``, or both.
            compare: Compare with the store's present files, byte by byte.
            dry_run: Plan and count, write nothing.
            topic: Globs of topics to take. This and the next three make the result partial.
            exclude_topic: Globs of topics to leave out.
            until_timestamp: Nothing stored later.
            until_offset: Stop at this physical offset.
            tag_items: Which messages get an index entry for their tags, as brokers since 5.4.0 make one:
                ``auto`` as the store shows, ``all``, ``none``, ``from:PHY``, or turns
                ``from:PHY,to:PHY,…``.
            generations: Messages of a topic that was deleted and created again: ``all``; ``live``, those
                after the last restart of queue offsets; ``auto``, those that live by the queue that is there.
            lost: Told every message that the result has not, one by one; the report then adds them up. It is
                of a whole rebuild.
            salvage: Over all true records of a damaged log, which no broker does.
            live: Read a store whose lock a broker holds.
            max_findings: Findings of one code that are kept; the rest is counted.
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or what `rmqtool.open_engine` opened.
            jobs: Tasks at a time; None is all cores.
            progress: Told what is going on.

        Raises:
            UsageError: There is nothing to do, or an argument makes no sense.
            RefusedError: A broker holds the lock, the output exists, or it lies inside the store.
            EnvironmentFailureError: Reading the log or writing the output failed; nothing was left behind.
        """
        from rmqtool.api.engines import engine_of
        from rmqtool.commands.rebuild.run import PARTS, RebuildRequest, rebuild
        from rmqtool.dispatch.index_keys import TagItems

        check_least(0, until_offset=until_offset, max_findings=max_findings)
        chosen = frozenset(names_of(parts))
        if not chosen or not chosen <= PARTS:
            raise UsageError(f"parts={parts!r}: give {' or '.join(sorted(PARTS))}, or both")
        options, opened = engine_of(engine, jobs)
        request = RebuildRequest(
            self._examined(),
            None if out is None else target_of(out),
            options,
            parts=chosen,
            compare=compare,
            dry_run=dry_run,
            topics=names_of(topic),
            exclude_topics=names_of(exclude_topic),
            until_timestamp_ms=time_ms("until_timestamp", until_timestamp, self._zone),
            until_offset=until_offset,
            tag_items=None if tag_items == "auto" else TagItems.parse(tag_items),
            generations=_generations(generations),
            tell_lost=lost,
            salvage=salvage,
            live=live,
            max_findings=max_findings,
        )
        return rebuild(request, progress or NullProgress(), opened)

    def plan_salvage(
        self,
        copies: Iterable[Store] = (),
        *,
        progress: Progress | None = None,
        **options: Unpack[SalvageOptions],
    ) -> SalvagePlan:
        """Say what `salvage` would do; nothing is written.

        Args:
            copies: Other copies of the same log, from which holes of this one are healed.
            progress: Told what is going on.
            options: See `rmqtool.api.salvaging.SalvageOptions`.

        Raises:
            UsageError: The copies are none of this log, or an option makes no sense.
            RefusedError: A broker holds the lock.
            EnvironmentFailureError: The log cannot be read, or nothing of it can be given back.
        """
        from rmqtool.api.salvaging import salvage_request
        from rmqtool.commands.salvage import plan_salvage

        stores = (self._examined(), *(one._examined() for one in copies))
        return plan_salvage(salvage_request(stores, self._zone, options), progress or NullProgress())

    def salvage(
        self,
        out: AnyStore,
        copies: Iterable[Store] = (),
        *,
        plan: SalvagePlan | None = None,
        progress: Progress | None = None,
        **options: Unpack[SalvageOptions],
    ) -> SalvageReport:
        """Make a new, complete store out of what is left of this one.

        Args:
            out: The directory to make, which appears complete or not at all; it must not exist, or be empty.
                In object storage, it is complete when ``manifest.json`` is there.
            copies: Other copies of the same log, from which holes of this one are healed.
            plan: What `plan_salvage` returned for the same copies, to be done to the letter.
            progress: Told what is going on.
            options: See `rmqtool.api.salvaging.SalvageOptions`; with a plan only ``live`` and ``jobs`` count.

        Raises:
            UsageError: The copies are none of this log, or an option makes no sense.
            RefusedError: A broker holds the lock, the output exists or lies inside the store, or a file is
                not what it was when the plan was made.
            EnvironmentFailureError: Reading or writing failed, or nothing of the log can be given back.
        """
        from rmqtool.api.salvaging import salvage_request
        from rmqtool.commands.salvage import apply_plan, salvage

        stores = (self._examined(), *(one._examined() for one in copies))
        request = salvage_request(stores, self._zone, options)
        target, told = target_of(out), progress or NullProgress()
        return salvage(request, target, told) if plan is None else apply_plan(plan, request, target, told)


def _generations(word: str) -> Generations:
    from rmqtool.commands.rebuild.generations import Generations

    if word not in set(Generations):
        raise UsageError(f"generations={word!r}: give {', '.join(Generations)}")
    return Generations(word)
