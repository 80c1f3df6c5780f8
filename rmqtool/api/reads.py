"""Messages, rows and answers of a store, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.api.opened import OpenedStore, kind_named
from rmqtool.errors import UsageError
from rmqtool.options import check_least, names_of, request_of
from rmqtool.progress import NullProgress, RecordingProgress
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Unpack

    from rmqtool.api.messages import Messages
    from rmqtool.api.options import DumpOptions, MessagesOptions, QueryOptions
    from rmqtool.api.results import Answer
    from rmqtool.commands.query import KeyQuestion
    from rmqtool.progress import Progress
    from rmqtool.rows import Message, Row


class ReadStore(OpenedStore):
    """The part of `rmqtool.Store` that yields rows."""

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
        from rmqtool.api.messages import Messages
        from rmqtool.commands.dump import DumpRequest

        self.files.require_log("read messages from")
        check_least(1, limit=limit)
        kinds = frozenset({PathKind.COMMITLOG})
        request = request_of(DumpRequest, options, self._zone, kinds=kinds)
        return Messages(self.files, request, RecordingProgress(progress), limit)

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
                this form: ``none``, ``text`` or ``hex``.
            progress: Receives stages and remarks.
            options: See `rmqtool.api.options.DumpOptions`.

        Raises:
            UsageError: An argument makes no sense, or a filter cannot be applied to what the store shows.
            EnvironmentFailureError: While rows are drawn: a file cannot be opened or read.
        """
        from rmqtool.commands.dump import DumpRequest, dump

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
        questions = None if keys is None else tuple(_question(one, options.get("topic")) for one in keys)
        request = request_of(QueryRequest, options, self._zone, keys=questions)
        request.check()
        self.files.require_log("read messages from")
        remarks, explanation = RecordingProgress(progress), Explanation(wanted=explain)
        query = Query(self.files, request, remarks, explanation)
        return Answer(query, explanation, remarks, decompress=decompress)


def _question(key: str | KeyQuestion, topic: str | None) -> KeyQuestion:
    from rmqtool.commands.query import KeyQuestion

    if isinstance(key, KeyQuestion):
        return key
    if topic is None:
        raise UsageError(f"the key {key!r} needs --topic, or a KeyQuestion of its own")
    return KeyQuestion(topic, key, either=True)
