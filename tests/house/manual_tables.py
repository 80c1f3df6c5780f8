"""Tables of the manual: all finding codes, and all rows that json, ndjson and csv hold."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from rmqtool import rows
from rmqtool.account.lost import LostMessage
from rmqtool.commands.config import ConfigRemark
from rmqtool.commands.decode_id import Reading
from rmqtool.commands.diff import Difference
from rmqtool.commands.offsets import Progress
from rmqtool.commands.query.copies import MessageCopy
from rmqtool.commands.topics import TopicTotals
from rmqtool.findings import CATALOG
from rmqtool.findings.log_lines import LOG_LINES
from rmqtool.lookup.delayed import DelayedMessages
from rmqtool.projection import camel_case, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CODE_HEAD = ("Code", "Severity", "Meaning", "Remedy")
_LINE_HEAD = ("Line", "By itself", "Since", "What", "Meaning")
_ROW_HEAD = ("Type", "Command", "Members after `type`")
_QUERIED = (rows.Message, rows.InnerMessage, rows.Damage)
_OF_OTHERS = {
    Reading: "decode-id",
    MessageCopy: "query",
    Progress: "offsets",
    DelayedMessages: "offsets --delayed",
    ConfigRemark: "config",
    Difference: "diff",
    TopicTotals: "topics",
    LostMessage: "verify, rebuild",
}
_JSON_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bytes": "hex string",
    "bool": "boolean",
    "None": "null",
    "Change": "string",
    "Severity": "string",
    "CopyState": "string",
    "FindingCode": "string",
    "TopicKind": "string",
    "LostReason": "string",
    "object": "any",
}
_BODY = "string or null"
"""Depends on ``--body``."""


def catalogue_table() -> str:
    """Return the catalogue as a table in Markdown, in its order."""
    rows_ = ((f"`{one.code}`", one.severity.value, one.title, one.remedy) for one in CATALOG.values())
    return _table(_CODE_HEAD, [tuple(map(_cell, row)) for row in rows_])


def line_table() -> str:
    """Return the kinds of lines of logs as a table in Markdown, in the order in which they are tried."""
    rows_ = (
        (f"`{one.name}`", one.concern.value, one.since, one.title, one.meaning) for one in LOG_LINES.values()
    )
    return _table(_LINE_HEAD, [tuple(map(_cell, row)) for row in rows_])


def row_table() -> str:
    """Return the types of rows as a table in Markdown; their members with their JSON types, in order."""
    return _table(
        _ROW_HEAD, [(f"`{kind.type}`", command, ", ".join(_members(kind))) for kind, command in _kinds()]
    )


def _kinds() -> Iterator[tuple[type[Any], str]]:
    for kind in get_args(rows.Row):
        if kind not in {rows.Lines, rows.Columns}:
            yield kind, "dump, query" if kind in _QUERIED else "dump"
        if kind is rows.Unit:
            yield rows.Preblank, "dump"
    yield from _OF_OTHERS.items()


def _members(kind: type[Any]) -> Iterator[str]:
    shown = columns_of(kind)
    for one in fields(kind):
        name = camel_case(one.name)
        if name in shown:
            yield f"`{name}` {_BODY if one.name == 'body' else _json_type(str(one.type))}"
        if name == "body":
            yield f"`bodyEncoding` {_BODY}"


def _json_type(annotation: str) -> str:
    return " or ".join(_single(one.strip()) for one in annotation.split(" | "))


def _single(annotation: str) -> str:
    if annotation.startswith("list["):
        return f"array of {_JSON_TYPES.get(annotation[5:-1], 'object')}s"
    return "object" if annotation.startswith("dict[") else _JSON_TYPES[annotation]


def _table(head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ("---",) * len(head), *lines))


def _cell(text: str) -> str:
    """Return text that ends no cell and starts no markup in Markdown."""
    for character in "|<*_":
        if not text.startswith("`"):
            text = text.replace(character, f"\\{character}")
    return text
