"""Options of the methods of `rmqtool.Store`, by the names of the command line.

The commands' requests declare what each does, its bounds and its default; ``help("rmqtool.api.options")``
shows it. The methods need nothing of this module but its types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from rmqtool.check import VerifyRequest
from rmqtool.commands.convert import ConvertRequest
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.export import ExportRequest
from rmqtool.commands.query import QueryRequest
from rmqtool.commands.rebuild import RebuildRequest
from rmqtool.commands.repair import RepairRequest
from rmqtool.commands.salvage import SalvageRequest
from rmqtool.commands.topics import TopicsRequest
from rmqtool.options import declared_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqtool.api.arguments import Time


class QueueOptions(TypedDict, total=False):
    """Options of `Queue.messages`."""

    begin: Time | None
    end: Time | None
    from_queue_offset: int | None
    decompress: bool


class MessageOptions(QueueOptions, total=False):
    """Filters of messages in the order of the log; times and topics are those of storing."""

    topic: str | Iterable[str] | None
    queue: int | None
    tag: str | None
    key: str | None
    backlog_of: str | None
    in_doubt: bool
    dead_letters: bool
    contains: str | None
    from_offset: int | None
    to_offset: int | None


class MessagesOptions(MessageOptions, total=False):
    """Options of `Store.messages`."""

    on_corrupt: Literal["resync", "stop", "fail"]


class DumpOptions(MessagesOptions, total=False):
    """Options of `Store.dump`."""

    row_types: str | Iterable[str]
    unpack_batches: bool
    hex: bool
    slots: bool
    chains: bool


class QueryOptions(TypedDict, total=False):
    """Options of `Store.query`: one of key, unique key, tag, id, offset, queue offset, or times."""

    topic: str | None
    key: str | None
    unique_key: str | None
    tag: str | None
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


class TopicsOptions(TypedDict, total=False):
    """Options of `Store.topics`."""

    topic: str | Iterable[str]
    kind: str | Iterable[str]
    queues: bool
    sort: str
    top: int | None


class VerifyOptions(TypedDict, total=False):
    """Options of `Store.verify`."""

    level: int
    max_findings: int
    live: bool


class PartOptions(TypedDict, total=False):
    """Choice of the messages of a new store, which makes the result partial."""

    topic: str | Iterable[str]
    exclude_topic: str | Iterable[str]
    until_timestamp: Time | None
    until_offset: int | None


class RebuildOptions(PartOptions, total=False):
    """Options of `Store.rebuild`."""

    compare: bool
    dry_run: bool
    tag_items: str
    generations: str
    live: bool
    max_findings: int


class SalvageOptions(PartOptions, total=False):
    """Options of `Store.salvage`."""

    holes: str
    keep_damaged: bool
    include_stale: bool
    live: bool


class ConvertOptions(TypedDict, total=False):
    """Options of `Store.convert`."""

    to: str
    include_uncommitted: bool


class RepairOptions(TypedDict, total=False):
    """Options of `Store.repair`."""

    only: str | Iterable[str]


class ExportOptions(MessageOptions, total=False):
    """Options of `rmqtool.export`."""

    format: str
    columns: Iterable[str] | None
    body: str
    partition_by: str | None
    max_findings: int


REQUESTS: dict[Any, Any] = {
    QueueOptions: DumpRequest,
    MessagesOptions: DumpRequest,
    DumpOptions: DumpRequest,
    QueryOptions: QueryRequest,
    TopicsOptions: TopicsRequest,
    VerifyOptions: VerifyRequest,
    RebuildOptions: RebuildRequest,
    SalvageOptions: SalvageRequest,
    ConvertOptions: ConvertRequest,
    RepairOptions: RepairRequest,
    ExportOptions: ExportRequest,
}
"""Requests that declare the options."""

for _keywords, _request in REQUESTS.items():
    _lines = [
        f"    {option.name}: {option.help}" + (f" Default: {option.default}." if option.default else "")
        for option in declared_options(_request)
        if option.name in _keywords.__annotations__
    ]
    _keywords.__doc__ = "\n".join([f"{_keywords.__doc__}\n\nAttributes:", *_lines])
