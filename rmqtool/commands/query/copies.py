"""One question to several copies of a store: which has each message, where, and whether they are the same."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from rmqtool.projection import camel_case
from rmqtool.rows import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_PLACE = frozenset(
    {"file", "position", "physical_offset", "msg_id", "damage", "explanation", "store_host"}
)
"""Fields that each copy of a message may have of its own: its place, the ID that names it, and its broker."""


class CopyState(StrEnum):
    """State of a message in one of several stores."""

    SAME = "same"  # as the first intact copy
    DIFFERENT = "different"
    DAMAGED = "damaged"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class MessageCopy:
    """A message as one of several stores has it.

    Attributes:
        topic: of the message.
        queue_id: of its queue.
        queue_offset: in that.
        uniq_key: the client's unique key.
        store: path of the store.
        state: ``same`` as the first intact copy, ``different``, ``damaged``, or ``missing``.
        differs: fields that are not those of the first intact copy, by their names in JSON.
        file: of the log; None where the message is missing.
        position: in the file, bytes.
        physical_offset: in the log, bytes.
    """

    type: ClassVar = "copy"
    topic: str
    queue_id: int
    queue_offset: int
    uniq_key: str | None
    store: str
    state: CopyState
    differs: list[str]
    file: str | None = None
    position: int | None = None
    physical_offset: int | None = None


def message_copies(answers: Mapping[str, Sequence[Message]]) -> list[MessageCopy]:
    """Return each message of any store as every store has it, stores in their order.

    Messages are the same one by topic, queue and queue offset, as consumers count.
    """
    by_place: dict[tuple[str, int, int], dict[str, Message]] = {}
    for store, messages in answers.items():
        for message in messages:
            place = message.topic, message.queue_id, message.queue_offset
            by_place.setdefault(place, {}).setdefault(store, message)
    copies = []
    for place, of_stores in sorted(by_place.items()):
        intact = next(
            (message for message in of_stores.values() if not message.damage), next(iter(of_stores.values()))
        )
        copies += [_copy(place, store, of_stores.get(store), intact) for store in answers]
    return copies


def _copy(place: tuple[str, int, int], store: str, message: Message | None, intact: Message) -> MessageCopy:
    if message is None:
        return MessageCopy(*place, intact.uniq_key, store, CopyState.MISSING, [])
    names = [field.name for field in fields(Message) if field.name not in _OF_PLACE]
    differs = [camel_case(name) for name in names if getattr(message, name) != getattr(intact, name)]
    state = CopyState.DIFFERENT if differs else CopyState.SAME
    if message.damage:
        state = CopyState.DAMAGED
    where = message.file, message.position, message.physical_offset
    return MessageCopy(*place, message.uniq_key, store, state, differs, *where)
