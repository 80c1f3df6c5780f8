"""Commands as methods of an opened store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rmqtool.api.arguments import AnyEngine, AnyStore, kind_named, target_of
from rmqtool.api.opened import OpenedStore
from rmqtool.errors import EnvironmentFailureError, UsageError
from rmqtool.options import names_of, request_of
from rmqtool.progress import LimitedProgress, NullProgress, Progress, RecordingProgress
from rmqtool.store import PathKind
from rmqtool.store import Store as StoreFiles
from rmqtool.store.kinds import UNIT_QUEUE_KINDS
from rmqtool.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Unpack

    from rmqtool.account.lost import LostMessage
    from rmqtool.api.options import (
        ConvertOptions,
        DumpOptions,
        MessagesOptions,
        QueryOptions,
        RebuildOptions,
        RepairOptions,
        SalvageOptions,
        TopicsOptions,
        VerifyOptions,
    )
    from rmqtool.api.parts import Index, Messages, Queue
    from rmqtool.api.results import Answer, Differences
    from rmqtool.check import VerifyReport
    from rmqtool.commands.convert import ConvertReport
    from rmqtool.commands.query import KeyQuestion
    from rmqtool.commands.rebuild.report import RebuildReport
    from rmqtool.commands.repair import RepairReport
    from rmqtool.commands.salvage import SalvageReport, SalvageRequest
    from rmqtool.commands.topics import Lag, TopicsReport
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.rows import Message, Row
    from rmqtool.salvage import SalvagePlan


class Store(OpenedStore):
    """A store, or a part of one, opened by `rmqtool.open`; iteration yields the messages of its log.

    It holds the files of its first use: files that a running broker adds or extends later are seen by
    opening it again. Several threads may use it at once, and several stores may be open.

    Options are those of the command line, with the same names: see `rmqtool.api.options`. ``progress``
    receives stages and remarks (`rmqtool.progress.Progress`).
    """

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(
        self,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[MessagesOptions],
    ) -> Messages:
        """Return the messages of the commit log, in its order: row by row, or as columns.

        A time or queue offset of one queue is found through its consume queue; what that does not hold is
        not found so, but as columns: see `rmqtool help export` for what they leave out unread.

        Args:
            limit: At most so many.
            progress: Receives remarks.
            options: See `rmqtool.api.options.MessagesOptions`.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: No commit log is there; or, while rows are drawn, a file cannot be
                opened or read.
        """
        from rmqtool.api.parts import messages_of

        return messages_of(self, options, limit, progress)

    def dump(
        self,
        *,
        types: str | Iterable[str] = (),
        lines: str | None = None,
        progress: Progress | None = None,
        **options: Unpack[DumpOptions],
    ) -> Iterator[Row]:
        """Return all rows of the files, structure by structure, damage where it lies among them.

        A filter narrows what is read to the structures to which it can be applied; a filter on messages to
        the log, unless ``types`` or ``row_types`` name others.

        Args:
            types: Kinds of files as of `rmqtool.open`; none means all.
            lines: Messages of a large log may come as ready lines of ndjson, on all cores, with bodies in
                this form: ``none``, ``text``, ``hex`` or ``base64``.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.DumpOptions`.

        Raises:
            UsageError: An argument makes no sense, or a filter cannot be applied to what the store shows.
            EnvironmentFailureError: While rows are drawn: a file cannot be opened or read.
        """
        from rmqtool.commands.dump import DumpRequest
        from rmqtool.commands.dump.run import dump

        kinds = frozenset(map(kind_named, names_of(types)))
        request = request_of(DumpRequest, options, self._zone, kinds=kinds, lines=lines)
        return dump(self.files, request, progress or NullProgress())

    def query(
        self,
        *,
        keys: Iterable[str | KeyQuestion] | None = None,
        explain: bool = False,
        decompress: bool = False,
        progress: Progress | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Find messages by one of key, unique key, tag, keys, id, physical offset, queue offset, or times.

        Args:
            keys: Many keys or unique keys in one pass: of the topic, or each with its own as
                `rmqtool.KeyQuestion`.
            explain: Keep every step, and why something was not found.
            decompress: Unpack bodies that SYSFLAG says are compressed.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.QueryOptions`; ``max`` None or 0 is all, where a broker gives
                64. With ``queue_offset`` it is 1 by default.

        Raises:
            UsageError: That is no question, or more than one.
            EnvironmentFailureError: No commit log is there; or, while messages are drawn, a file cannot be
                opened or read.
            UnansweredError: While messages are drawn: the structure that should answer cannot.
        """
        from rmqtool.api.results import Answer
        from rmqtool.commands.query import Explanation, Query, QueryRequest

        if options.get("queue_offset") is not None and options.get("max") is None:
            options["max"] = 1
        questions = None if keys is None else tuple(_question(key, options.get("topic")) for key in keys)
        request = request_of(QueryRequest, options, self._zone, keys=questions)
        request.check()
        self.files.require_log("read messages from")
        remarks, explanation = RecordingProgress(progress), Explanation(wanted=explain)
        query = Query(self.files, request, remarks, explanation)
        return Answer(query, explanation, remarks, decompress=decompress)

    def queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue.

        Raises:
            EnvironmentFailureError: It is not there.
        """
        from rmqtool.api.parts import Queue

        files = self.files
        for kind in UNIT_QUEUE_KINDS:
            queue = files.queue(topic, queue_id, kind)
            if queue is not None:
                return Queue(self, queue, files.commitlog.start)
        raise EnvironmentFailureError(f"{self.location}: no queue {topic}/{queue_id}; Store.queues() has all")

    def queues(self, topic: str | None = None) -> tuple[Queue, ...]:
        """Return the queues of a topic, or all, by kind, topic and number.

        Raises:
            EnvironmentFailureError: A directory may not be read.
        """
        from rmqtool.api.parts import Queue

        files = self.files
        every = chain.from_iterable(files.queues(kind, topic) for kind in UNIT_QUEUE_KINDS)
        return tuple(Queue(self, queue, files.commitlog.start) for queue in every)

    def index(self) -> Index:
        """Return the hash index."""
        from rmqtool.api.parts import Index

        return Index(self, self.files)

    def topics(self, *, progress: Progress | None = None, **options: Unpack[TopicsOptions]) -> TopicsReport:
        """Add up the log by topic: records, bytes, times, rate, largest record, backlog.

        Every record of the log counts where it lies, under its stored topic: half and op messages under the
        broker's topics of that name, an inner batch as one. Bodies are not checked. Expired messages are not
        counted.

        Args:
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.TopicsOptions`.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: No commit log is there, or a file cannot be opened or read.
        """
        from rmqtool.commands.topics import TopicsRequest, topics_of

        files, shown = self._examined(), progress or NullProgress()
        request = request_of(TopicsRequest, options, store=files)
        files.require_log("read messages from")
        return topics_of(replace(request, lags=_lags(files, shown)), shown)

    def verify(
        self,
        *,
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[VerifyOptions],
    ) -> VerifyReport:
        """Check the store, and return its findings.

        Args:
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or an engine of `rmqtool.open_engine`.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.VerifyOptions`.

        Raises:
            UsageError: An argument makes no sense.
            RefusedError: A broker holds the store's lock, and ``live`` does not say to go on.
            EnvironmentFailureError: A directory cannot be listed, or scratch files cannot be written.
            VerifyInterruptedError: Ctrl-C; it carries the report so far.
        """
        from rmqtool.actions.verification import verify
        from rmqtool.api.arguments import engine_of
        from rmqtool.check import VerifyRequest

        chosen = engine_of(engine, jobs)
        request = request_of(VerifyRequest, options, store=self._examined(), engine=chosen)
        return verify(request, progress or NullProgress())

    def diff(self, other: Store, *, max_differences: int = 20) -> Differences:
        """Compare with another store, or the same part of one, by content rather than by bytes.

        Args:
            other: The other; ``a`` in a difference is this store's value, ``b`` the other's.
            max_differences: Reported of each log, queue or index; the rest is counted.

        Raises:
            UsageError: They are not of one kind; while differences are drawn.
            EnvironmentFailureError: A file cannot be read; while differences are drawn.
        """
        from rmqtool.api.results import Differences
        from rmqtool.commands.diff import StoreComparison
        from rmqtool.commands.diff.run import diff_stores

        comparison = request_of(StoreComparison, {"max_differences": max_differences})
        return Differences(diff_stores(self._examined(), other._examined(), comparison), comparison)

    def repair(
        self,
        *,
        plan: bool = False,
        undo: bool = False,
        config: Mapping[str, str] | None = None,
        settings_from: Store | Path | None = None,
        agreed: Callable[[RepairReport], bool] | None = None,
        command: str = "Store.repair",
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[RepairOptions],
    ) -> RepairReport:
        """Repair the store in place, where that cannot lose data; or finish, or undo, such a repair.

        It is the only method that writes into a store, by renames that ``undo`` takes back to the byte. Open
        the store again afterwards: this object knows the files of before.

        Args:
            plan: Return the plan, and write nothing.
            undo: Take the newest repair back.
            config: Choices for damaged files of settings, by name, where the doctor's own is not obvious.
            settings_from: Another store, from which offsets, topics and groups are merged into this one's; or
                the file in which a client of a group keeps its own offsets, ``GROUP/offsets.json``.
            agreed: Receives the plan before anything is written; returns whether to go on.
            command: The command line of the call, for the journal.
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or an engine of `rmqtool.open_engine`.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.RepairOptions`.

        Raises:
            UsageError: It is not a store root, or an argument makes no sense.
            RefusedError: A broker holds the lock, or has worked on the store since the repair to be undone.
            EnvironmentFailureError: A file cannot be read or written; run it again to finish, or undo.
        """
        from rmqtool.api.arguments import engine_of
        from rmqtool.commands.repair import RepairRequest
        from rmqtool.commands.repair.run import plan_repair, repair, undo_repair

        for name, is_given in (("plan", plan), ("settings_from", settings_from is not None)):
            if undo and is_given:
                raise UsageError(f"{name} and undo exclude each other")
        shown, chosen = progress or NullProgress(), engine_of(engine, jobs)
        request = request_of(
            RepairRequest,
            options,
            store=self.files,
            rebuild=partial(_rebuild, self.files, chosen, LimitedProgress(shown)),  # planned, then made
            choices=config or {},
            settings_from=settings_from.files if isinstance(settings_from, Store) else settings_from,
            engine=chosen,
            facts={"rmqtool": __version__, "command": command},
        )
        if undo:
            return undo_repair(request)
        if plan:
            return plan_repair(request, shown)
        return repair(request, shown) if agreed is None else repair(request, shown, agreed)

    def rebuild(
        self,
        out: AnyStore | None = None,
        *,
        parts: str | Iterable[str] = ("consumequeue", "index"),
        lost: Callable[[LostMessage], object] | None = None,
        engine: AnyEngine = "local",
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[RebuildOptions],
    ) -> RebuildReport:
        """Rebuild ``consumequeue/`` and ``index/`` from the commit log, outside of the store.

        Args:
            out: The directory to make, which appears complete or not at all; it must not exist, or be empty.
                In object storage, it is complete when ``manifest.json`` is there. None with ``compare`` or
                ``dry_run``.
            parts: ``consumequeue``, ``index``, or both.
            lost: Receives every message that the result has not, one by one; the report then adds them up.
                It is of a whole rebuild.
            engine: ``local``, ``spark``, `rmqtool.EngineOptions`, or an engine of `rmqtool.open_engine`.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.RebuildOptions`.

        Raises:
            UsageError: There is nothing to do, or an argument makes no sense.
            RefusedError: A broker holds the lock, the output exists, or it lies inside the store.
            EnvironmentFailureError: Reading the log or writing the output failed; nothing was left behind.
        """
        from rmqtool.api.arguments import engine_of
        from rmqtool.commands.rebuild import RebuildRequest
        from rmqtool.commands.rebuild.run import rebuild

        request = request_of(
            RebuildRequest,
            options,
            self._zone,
            store=self._examined(),
            out=None if out is None else target_of(out),
            engine=engine_of(engine, jobs),
            parts=frozenset(names_of(parts)),
            tell_lost=lost,
        )
        return rebuild(request, progress or NullProgress())

    def plan_salvage(
        self,
        copies: Iterable[Store] = (),
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[SalvageOptions],
    ) -> SalvagePlan:
        """Return the plan of `salvage`; nothing is written.

        Args:
            copies: Other copies of the same log, from which holes of this one are filled.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.SalvageOptions`.

        Raises:
            UsageError: The copies are none of this log, or an option makes no sense.
            RefusedError: A broker holds the lock.
            EnvironmentFailureError: The log cannot be read, or nothing of it can be recovered.
        """
        from rmqtool.commands.salvage import plan_salvage

        return plan_salvage(self._salvage_request(copies, jobs, options), progress or NullProgress())

    def salvage(
        self,
        out: AnyStore,
        copies: Iterable[Store] = (),
        *,
        plan: SalvagePlan | None = None,
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[SalvageOptions],
    ) -> SalvageReport:
        """Make a new, complete store out of what is left of this one.

        Args:
            out: The directory to make, which appears complete or not at all; it must not exist, or be empty.
                In object storage, it is complete when ``manifest.json`` is there.
            copies: Other copies of the same log, from which holes of this one are filled.
            plan: Plan of `plan_salvage` for the same copies, to be done to the letter.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.SalvageOptions`; with a plan only ``live`` counts.

        Raises:
            UsageError: The copies are none of this log, or an option makes no sense.
            RefusedError: A broker holds the lock, the output exists or lies inside the store, or a file is
                not what it was when the plan was made.
            EnvironmentFailureError: Reading or writing failed, or nothing of the log can be recovered.
        """
        from rmqtool.commands.salvage import apply_plan, salvage

        request = self._salvage_request(copies, jobs, options)
        target, shown = target_of(out), progress or NullProgress()
        return salvage(request, target, shown) if plan is None else apply_plan(plan, request, target, shown)

    def convert(
        self,
        out: Path | str,
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        **options: Unpack[ConvertOptions],
    ) -> ConvertReport:
        """Make a plain store of this one, whose log is of DLedger.

        Args:
            out: The directory to make, which appears complete or not at all; it must not exist, or be empty.
            jobs: Tasks at a time; None is all cores.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.ConvertOptions`.

        Raises:
            UsageError: It is no store root, or has no entries of DLedger.
            RefusedError: A broker holds the lock, the output exists or lies inside the store.
            LogDamagedError: The log is damaged before its committed end.
            EnvironmentFailureError: It has a part that is not converted; or reading or writing failed.
        """
        from rmqtool.commands.convert import ConvertRequest
        from rmqtool.commands.convert.run import convert
        from rmqtool.engine import EngineOptions

        engine = EngineOptions("local", jobs)
        request = request_of(ConvertRequest, options, store=self._examined(), engine=engine)
        return convert(request, Path(out), progress or NullProgress())

    def _salvage_request(
        self, copies: Iterable[Store], jobs: int | None, options: SalvageOptions
    ) -> SalvageRequest:
        from rmqtool.commands.salvage import SalvageRequest
        from rmqtool.engine import EngineOptions

        stores = (self._examined(), *(store._examined() for store in copies))
        engine = EngineOptions("local", jobs)
        return request_of(SalvageRequest, options, self._zone, stores=stores, engine=engine)


def _question(key: str | KeyQuestion, topic: str | None) -> KeyQuestion:
    from rmqtool.commands.query import KeyQuestion

    if isinstance(key, KeyQuestion):
        return key
    if topic is None:
        raise UsageError(f"the key {key!r} needs --topic, or a KeyQuestion of its own")
    return KeyQuestion(topic, key, either=True)


def _lags(files: StoreFiles, progress: Progress) -> Iterable[Lag]:
    """Return the backlog of all readers: none, and a warning, where offsets or queues cannot be read."""
    from rmqtool.commands.offsets import progress_of
    from rmqtool.commands.topics import Lag

    if files.kind is not PathKind.STORE:
        return ()
    try:
        rows = list(progress_of(files))
    except EnvironmentFailureError as failure:
        progress.warn(f"the backlog is left out: {failure}")
        return ()
    return tuple(Lag(row.topic, row.queue_id, row.reader, row.lag) for row in rows if row.lag is not None)


def _rebuild(
    files: StoreFiles,
    chosen: EngineOptions | Engine,
    progress: Progress,
    parts: frozenset[str],
    out: Path | None,
    own: Path | None,
    tell_queue: Callable[[str, int, bool], object] = lambda _topic, _queue_id, _batch: None,
) -> RebuildReport:
    """Rebuild parts of a store for a repair, which holds its lock."""
    from rmqtool.commands.rebuild import RebuildRequest
    from rmqtool.commands.rebuild.run import rebuild

    request = RebuildRequest(
        store=files,
        out=out,
        engine=chosen,
        parts=parts,
        dry_run=out is None,
        live=True,
        own=own,
        tell_queue=tell_queue,
    )
    return rebuild(request, progress)
