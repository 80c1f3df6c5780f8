"""How a question is made of a caller's arguments, and asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqtool.api.arguments import check_least, check_texts, time_ms
from rmqtool.api.results import Answer
from rmqtool.commands.query import Explanation, KeyQuestion, Query, QueryRequest
from rmqtool.errors import UsageError
from rmqtool.progress import RecordingProgress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from rmqtool.api.arguments import Time
    from rmqtool.progress import Progress
    from rmqtool.store import Store as StoreFiles

_QUESTIONS = {
    "key": "--key",
    "unique_key": "--unique-key",
    "tag": "--tag",
    "keys": "--keys-file",
    "msg_id": "--msg-id",
    "offset": "--offset",
    "queue_offset": "--queue-offset",
}
"""What can be asked for, and the option of the command line that does."""

_WITHOUT_TOPIC = {"--key", "--unique-key", "--msg-id", "--offset", "--keys-file"}
_HASHED = ("--key", "--unique-key", "--tag", "--keys-file")
_OF_ONE_PLACE = {"--offset", "--queue-offset"}


@dataclass(frozen=True)
class Asked:
    """What a caller asks for: see `Store.query`."""

    topic: str | None
    key: str | None
    unique_key: str | None
    tag: str | None
    keys: Iterable[str | KeyQuestion] | None
    msg_id: str | None
    offset: int | None
    queue: int | None
    queue_offset: int | None
    begin: Time | None
    end: Time | None
    max: int | None
    scan: bool
    collisions: bool
    consumed_by: str | None

    def request(self, zone: tzinfo | None) -> QueryRequest:
        """Return the request.

        Raises:
            UsageError: That is no question, or more than one, or one with options that it cannot use.
        """
        texts = ("topic", "key", "unique_key", "tag", "msg_id", "consumed_by")
        check_texts(**{name: getattr(self, name) for name in texts})
        check_company(self)
        check_least(0, offset=self.offset, queue_offset=self.queue_offset, max=self.max)
        wanted = 1 if self.max is None and self.queue_offset is not None else self.max
        return QueryRequest(
            topic=self.topic,
            key=self.key,
            unique_key=self.unique_key,
            tag=self.tag,
            keys=None if self.keys is None else tuple(map(self._question, self.keys)),
            msg_id=self.msg_id,
            offset=self.offset,
            queue_id=self.queue,
            queue_offset=self.queue_offset,
            begin_ms=time_ms("begin", self.begin, zone),
            end_ms=time_ms("end", self.end, zone),
            max_messages=wanted or None,
            scan=self.scan,
            collisions=self.collisions,
            consumed_by=self.consumed_by,
        )

    def _question(self, key: str | KeyQuestion) -> KeyQuestion:
        if isinstance(key, KeyQuestion):
            return key
        if self.topic is None:
            raise UsageError(f"the key {key!r} needs --topic, or a KeyQuestion of its own")
        return KeyQuestion(self.topic, key, either=True)


def check_company(asked: Asked) -> None:
    """Check that there is one question, with the options that it needs, and none that it cannot use.

    Raises:
        UsageError: There is not.
    """
    questions = [option for name, option in _QUESTIONS.items() if getattr(asked, name) is not None]
    if len(questions) > 1:
        raise UsageError(f"{' and '.join(questions)} are {len(questions)} queries; run one at a time")
    question = questions[0] if questions else None
    has_time = asked.begin is not None or asked.end is not None
    if question is None and not has_time:
        raise UsageError(f"nothing to find: pass {', '.join(_QUESTIONS.values())} or --begin")
    if asked.topic is None and question not in _WITHOUT_TOPIC:
        raise UsageError(f"{question or '--begin'} needs --topic")
    if question == "--queue-offset" and asked.queue is None:
        raise UsageError("--queue-offset needs --queue")
    if asked.queue is not None and question not in {"--queue-offset", None}:
        raise UsageError(f"--queue does not apply to {question}")
    if has_time and question in _OF_ONE_PLACE:
        raise UsageError(f"--begin and --end do not apply to {question}")
    if asked.collisions and (question not in _HASHED or asked.scan):
        raise UsageError(f"--collisions needs {', '.join(_HASHED[:-1])} or {_HASHED[-1]}, and the index")
    if asked.collisions and asked.topic is None and asked.keys is None:
        raise UsageError("--collisions needs --topic: the index has no key without its topic")


def answer(
    store: StoreFiles, request: QueryRequest, progress: Progress | None, *, explain: bool, decompress: bool
) -> Answer:
    """Ask a store."""
    remarks, explanation = RecordingProgress(progress), Explanation(wanted=explain)
    return Answer(Query(store, request, remarks, explanation), explanation, remarks, decompress=decompress)
