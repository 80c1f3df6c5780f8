"""``ReputMessageService#doReput`` and the dispatchers after it (4.9.8, 5.3.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqtool.javacompat import parse_long
from rmqtool.store.names import safe_component
from tests.broker_model.index import IndexService
from tests.broker_model.messages import ByteBuffer, CheckMessageBuffer, Request, check_message
from tests.broker_model.queues import BatchConsumeQueue, ConsumeQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.dispatch.policy import DispatchPolicy


ENDLESS = 1 << 62
JAVA_WHITESPACE = "\t\n\x0b\f\r\x1c\x1d\x1e\x1f " + "".join(
    chr(code)
    for code in (0x1680, *range(0x2000, 0x2007), *range(0x2008, 0x200B), 0x2028, 0x2029, 0x205F, 0x3000)
)
"""``Character#isWhitespace`` (JDK 17), by which ``StringUtils#isBlank`` goes."""


class Stalled(Exception):
    """A NumberFormatException that leaves the dispatch: the reput thread repeats the record for ever."""


@dataclass(frozen=True)
class Sizes:
    """File sizes in bytes, slots and items."""

    consumequeue: int = 200
    ext: int = 100
    batch: int = 460
    slots: int = 7
    items: int = 20


@dataclass
class BrokerModel:
    """A broker's derived files, made message by message."""

    policy: DispatchPolicy
    sizes: Sizes = field(default_factory=Sizes)

    def __post_init__(self) -> None:
        self.queues: dict[tuple[str, int], ConsumeQueue | BatchConsumeQueue] = {}
        self.index = IndexService(self.sizes.slots, self.sizes.items, self._has_tag_item)
        self.dispatched: list[tuple[int, Request]] = []
        self.thread = CheckMessageBuffer()

    @property
    def is_5(self) -> bool:
        return self.policy.release.line != "4.9"

    # --- dispatch ---

    def dispatch(self, request: Request) -> None:
        """Do what ``DefaultMessageStore#doDispatch`` does.

        Raises:
            Stalled: an offset of the multi dispatch is not a number.
        """
        if request.sys_flag & 0xC in {0x0, 0x8}:
            self._put_position(request)
        if self.policy.index_enabled:
            self.index.build(request)

    def _has_tag_item(self, physical_offset: int) -> bool:
        """Tell whether a broker of 5.4.0 or later dispatched what lies there."""
        has = self.policy.release.tag_items
        if self.policy.tag_items is not None:
            has = False
            for turn in self.policy.tag_items.turns:
                has = not has if physical_offset >= turn else has
        return has

    def _put_position(self, request: Request) -> None:
        queue = self._find_queue(request.topic, request.queue_id)
        if request.topic in self.policy.batch_topics:  # also where no directory can have its name
            if isinstance(queue, BatchConsumeQueue) and request.base_offset >= 0 and request.batch_size >= 0:
                position = request.physical_offset, request.size, request.tags_code
                queue.put(*position, request.store_timestamp_ms, request.base_offset, request.batch_size)
            return
        if isinstance(queue, ConsumeQueue):
            tags_code = request.tags_code
            if self.policy.ext:
                tags_code = queue.put_ext(tags_code, request.store_timestamp_ms)
            queue.put(request.physical_offset, request.size, tags_code, request.queue_offset)
        if self._is_multi(request):
            self._multi_dispatch(request)

    def _is_multi(self, request: Request) -> bool:
        if not self.policy.multi_dispatch:
            return False
        excluded = ["%RETRY%", "rmq_sys_", *(["%DLQ%"] if self.policy.release.name >= "5.5" else [])]
        if self.is_5 and (
            request.topic.startswith(tuple(excluded)) or request.topic == "SCHEDULE_TOPIC_XXXX"
        ):
            return False
        names = request.properties.get("INNER_MULTI_DISPATCH", "")
        offsets = request.properties.get("INNER_MULTI_QUEUE_OFFSET", "")
        return bool(names.strip(JAVA_WHITESPACE) and offsets.strip(JAVA_WHITESPACE))

    def _multi_dispatch(self, request: Request) -> None:
        names = java_split(request.properties["INNER_MULTI_DISPATCH"])
        offsets = java_split(request.properties["INNER_MULTI_QUEUE_OFFSET"])
        if len(names) != len(offsets):
            return
        for name, offset in zip(names, offsets, strict=True):
            if self.is_5 and "/" in name:
                continue
            queue_offset = parse_long(offset)
            if queue_offset is None:
                raise Stalled
            queue_id = 0 if self.policy.lmq and name.startswith("%LMQ%") else request.queue_id
            queue = self._find_queue(name, queue_id)
            if isinstance(queue, ConsumeQueue):
                queue.put(request.physical_offset, request.size, request.tags_code, queue_offset)

    def _find_queue(self, topic: str, queue_id: int) -> ConsumeQueue | BatchConsumeQueue | None:
        """Return the queue, made if there is none; None (ours) where the topic can be no directory."""
        if not safe_component(topic):
            return None
        if (topic, queue_id) not in self.queues:
            ext = self.sizes.ext if self.policy.ext else None
            batch = topic in self.policy.batch_topics
            self.queues[topic, queue_id] = (
                BatchConsumeQueue(self.sizes.batch) if batch else ConsumeQueue(self.sizes.consumequeue, ext)
            )
        return self.queues[topic, queue_id]

    # --- reput ---

    def reput(self, log: Mapping[int, bytes], file_size: int, end: int = ENDLESS) -> bool:
        """Dispatch a log, files by their start; return whether the broker stalls at a record.

        ``end`` is ``getReputEndOffset``, which 5.3.3 also holds against every record: where the two counters
        have come apart in the last file, it depends on how much has been written by then. Without it the
        model is a master that has long gone on writing.
        """
        offset = min(log)
        try:
            while (after := self._do_reput(log, file_size, offset, end)) != offset:
                offset = after
        except Stalled:
            return True
        return False

    def _do_reput(self, log: Mapping[int, bytes], file_size: int, offset: int, end: int) -> int:
        """Do one ``doReput``; return the new reputFromOffset."""
        do_next = offset < end
        while do_next:
            start = next((one for one, data in log.items() if one <= offset < one + len(data)), None)
            if start is None:
                break
            buffer = ByteBuffer(log[start])
            buffer.position = offset - start
            size, read_size = buffer.remaining, 0
            while read_size < size and do_next and (offset < end or not self.is_5):
                place = start + buffer.position
                answer = check_message(buffer, self.policy, self.thread)
                if self.is_5 and offset + answer.size > end:
                    do_next = False
                elif answer.success and answer.request is not None:
                    self.dispatched.append((place, answer.request))
                    self.dispatch(answer.request)
                    offset += answer.size
                    read_size += answer.size
                elif answer.success:
                    offset += file_size - offset % file_size
                    read_size = size
                elif answer.size > 0:
                    offset += answer.size
                else:
                    do_next = False
                    offset += size - read_size
        return offset

    # --- files ---

    def queue_files(self) -> dict[str, bytes]:
        """Return all files but the index's, by path."""
        files: dict[str, bytes] = {}
        for (topic, queue_id), queue in self.queues.items():
            place = f"{topic}/{queue_id}"
            if isinstance(queue, BatchConsumeQueue):
                files |= queue.files.named(f"batchconsumequeue/{place}")
                continue
            files |= queue.files.named(f"consumequeue/{place}")
            if queue.ext is not None:
                files |= queue.ext.named(f"consumequeue_ext/{place}")
        return files

    def index_files(self) -> list[bytes]:
        """Return the index files in order."""
        return [file.to_bytes(empty_count=1 if self.is_5 else 0) for file in self.index.files]


def java_split(text: str) -> list[str]:
    """Split at commas as ``String#split``: empty last pieces are dropped."""
    pieces = text.split(",")
    while pieces and not pieces[-1]:
        pieces.pop()
    return pieces
