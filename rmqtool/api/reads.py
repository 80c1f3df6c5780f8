"""What can be read of a store, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.api.arguments import check_least, names_of
from rmqtool.api.opened import OpenedStore, kind_named
from rmqtool.progress import NullProgress, RecordingProgress
from rmqtool.store import PathKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqtool.api.arguments import Time
    from rmqtool.api.messages import Messages
    from rmqtool.api.reading import OnCorrupt
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
        topic: str | Iterable[str] | None = None,
        queue: int | None = None,
        tag: str | None = None,
        key: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        from_queue_offset: int | None = None,
        limit: int | None = None,
        on_corrupt: OnCorrupt = "resync",
        decompress: bool = False,
        progress: Progress | None = None,
    ) -> Messages:
        """Return the messages of the commit log, in its order: row by row, or as columns.

        A time or queue offset of one queue is found through its consume queue; what that does not hold is
        not found so, but as columns: see `rmqtool help export` for what they leave out unread.

        Args:
            topic: A glob over the stored topic, or several.
            queue: The queue's number.
            tag: The whole TAGS property.
            key: One of KEYS, or the unique key.
            begin: Stored at this time or later.
            end: Stored at this time or earlier.
            from_offset: From this physical offset on; inside a record the next one is the first.
            to_offset: Before this physical offset.
            from_queue_offset: From this queue offset on.
            limit: At most so many.
            on_corrupt: ``resync`` goes on after damage, ``stop`` ends at it, ``fail`` at the first error.
            decompress: Unpack bodies that SYSFLAG says are compressed.
            progress: Told what is going on.

        Raises:
            UsageError: An argument makes no sense.
            EnvironmentFailureError: No commit log is there; or, while rows are drawn, a file cannot be
                opened or read.
        """
        from rmqtool.api.messages import Messages
        from rmqtool.api.reading import reading_of

        self.files.require_log("read messages from")
        check_least(1, limit=limit)
        reading = reading_of(
            self._zone,
            frozenset({PathKind.COMMITLOG}),
            topic=topic,
            queue=queue,
            tag=tag,
            key=key,
            begin=begin,
            end=end,
            from_offset=from_offset,
            to_offset=to_offset,
            from_queue_offset=from_queue_offset,
            on_corrupt=on_corrupt,
            decompress=decompress,
        )
        remarks = RecordingProgress(progress)
        return Messages(self.files, reading, remarks, limit)

    def dump(
        self,
        *,
        types: str | Iterable[str] = (),
        topic: str | Iterable[str] | None = None,
        queue: int | None = None,
        tag: str | None = None,
        key: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        from_queue_offset: int | None = None,
        on_corrupt: OnCorrupt = "resync",
        decompress: bool = False,
        unpack_batches: bool = False,
        slots: bool = False,
        chains: bool = False,
        hex: bool = False,
        lines: str | None = None,
        row_types: str | Iterable[str] = (),
        progress: Progress | None = None,
    ) -> Iterator[Row]:
        """Return all rows of the files, structure by structure, damage where it lies among them.

        A filter narrows what is read to the structures to which it can be applied: one that asks something
        of messages to the log, unless ``types`` or ``row_types`` name others.

        Args:
            types: Kinds of files as of `rmqtool.open`; none means all.
            topic: A glob over the stored topic, or several.
            queue: The queue's number.
            tag: The whole TAGS property; of units, its hash.
            key: One of KEYS, or the unique key.
            begin: Stored at this time or later.
            end: Stored at this time or earlier.
            from_offset: From this physical offset on; inside a record the next one is the first.
            to_offset: Before this physical offset.
            from_queue_offset: From this queue offset on.
            on_corrupt: ``resync`` goes on after damage, ``stop`` ends at it, ``fail`` at the first error.
            decompress: Unpack bodies that SYSFLAG says are compressed.
            unpack_batches: Also the messages of inner batches, a row each.
            slots: Also the used slots of index files.
            chains: Also the chains of index files.
            hex: Also the bytes of every row, field by field.
            lines: Messages of a large log may come as ready lines of ndjson, on all cores, with bodies in
                this form: ``none``, ``text`` or ``hex``.
            row_types: Types of rows, such as ``message``, ``blank`` or ``unit``; none means all of what is
                read. Damage is always among the rows.
            progress: Told what is going on.

        Raises:
            UsageError: An argument makes no sense, or a filter cannot be applied to what the store shows.
            EnvironmentFailureError: While rows are drawn: a file cannot be opened or read.
        """
        from rmqtool.api.reading import reading_of

        reading = reading_of(
            self._zone,
            frozenset(map(kind_named, names_of(types))),
            topic=topic,
            queue=queue,
            tag=tag,
            key=key,
            begin=begin,
            end=end,
            from_offset=from_offset,
            to_offset=to_offset,
            from_queue_offset=from_queue_offset,
            on_corrupt=on_corrupt,
            decompress=decompress,
            unpack_batches=unpack_batches,
            slots=slots,
            chains=chains,
            hex=hex,
            lines=lines,
            row_types=frozenset(names_of(row_types)),
        )
        return reading.rows(self.files, progress or NullProgress())

    def query(
        self,
        *,
        topic: str | None = None,
        key: str | None = None,
        unique_key: str | None = None,
        tag: str | None = None,
        keys: Iterable[str | KeyQuestion] | None = None,
        msg_id: str | None = None,
        offset: int | None = None,
        queue: int | None = None,
        queue_offset: int | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        max: int | None = None,
        scan: bool = False,
        collisions: bool = False,
        consumed_by: str | None = None,
        explain: bool = False,
        decompress: bool = False,
        progress: Progress | None = None,
    ) -> Answer:
        """Find messages by one of key, unique key, tag, keys, id, physical offset, queue offset, or times.

        Args:
            topic: The stored topic, exactly.
            key: One of KEYS; without a topic, of every topic that is known of.
            unique_key: The client's unique key; as ``key``.
            tag: All of TAGS; needs the topic.
            keys: Many keys or unique keys in one pass: of the topic, or each with its own as
                `rmqtool.KeyQuestion`.
            msg_id: An offset id or a unique id.
            offset: A physical offset.
            queue: A queue of the topic, for ``queue_offset`` or times.
            queue_offset: The message at this queue offset; with ``max``, those from there on.
            begin: Stored at this time or later.
            end: Stored at this time or earlier.
            max: At most so many, of each key the newest; None or 0 is all. A broker gives 64.
            scan: Walk the log instead of trusting index or queues.
            collisions: Also hash hits of other keys: the broker's own answer.
            consumed_by: A group; `Answer.consumption` then says how far it has come with a message.
            explain: Keep every step, and why something was not found.
            decompress: Unpack bodies that SYSFLAG says are compressed.
            progress: Told what is going on.

        Raises:
            UsageError: That is no question, or more than one.
            EnvironmentFailureError: No commit log is there; or, while messages are drawn, a file cannot be
                opened or read.
            UnansweredError: While messages are drawn: the structure that should answer cannot.
        """
        from rmqtool.api.asking import Asked, answer

        asked = Asked(
            topic=topic,
            key=key,
            unique_key=unique_key,
            tag=tag,
            keys=keys,
            msg_id=msg_id,
            offset=offset,
            queue=queue,
            queue_offset=queue_offset,
            begin=begin,
            end=end,
            max=max,
            scan=scan,
            collisions=collisions,
            consumed_by=consumed_by,
        )
        request = asked.request(self._zone)
        self.files.require_log("read messages from")
        return answer(self.files, request, progress, explain=explain, decompress=decompress)
