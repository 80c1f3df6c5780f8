"""Where the answers of many keys go, and a json document that explains: what `rmqtool.report.sinks` lacks."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

from rmqtool.commands.rows import Message
from rmqtool.report.escaping import escape_controls, escape_text
from rmqtool.report.objects import BodyMode, columns_of, row_object
from rmqtool.report.row_text import RowText
from rmqtool.report.sinks import Format, to_json

if TYPE_CHECKING:
    from datetime import tzinfo
    from typing import TextIO

    from rmqtool.commands.query import Explanation
    from rmqtool.errors import ExitStatus

_QUERY_KEY = "queryKey"


class QuerySink:
    """Writes answers as they come.

    Args:
        chosen: The format.
        stream: Receives the text.
        schema: Name and version of a json document.
        body: How bodies are shown; None is the format's habit: a preview in text, else nothing.
        zone: In which text prints times.
        keyed: Whether the answers carry the keys that they answer.
    """

    def __init__(
        self,
        chosen: Format,
        stream: TextIO,
        *,
        schema: str,
        body: BodyMode | None,
        zone: tzinfo | None,
        keyed: bool,
    ) -> None:
        self._stream = stream
        self._text = RowText(body, zone)
        self._body = BodyMode.NONE if body is None else body
        self._keyed = keyed
        self._key: str | None = None
        self._rows = 0
        self._format = chosen
        self._csv = csv.writer(stream, lineterminator="\n")
        self._head = f'{{"schema": {json.dumps(schema)}, "rows": [\n'

    def add(self, message: Message, query_key: str | None) -> None:
        """Write one answer."""
        if self._format is Format.TEXT:
            self._add_text(message, query_key)
        elif self._format is Format.CSV:
            self._add_cells(message, query_key)
        elif self._format is Format.NDJSON:
            self._stream.write(self._object(message, query_key) + "\n")
        else:
            start = ",\n" if self._rows else self._head
            self._stream.write(start + self._object(message, query_key))
        self._rows += 1

    def finish(self, status: ExitStatus, explanation: Explanation) -> None:
        """Write what follows the last answer: a json document ends with the explanation that was wanted."""
        if self._format is not Format.JSON:
            return
        steps = to_json([step.to_json() for step in explanation.steps])
        explained = f', "explain": {steps}' if explanation.wanted else ""
        start = "\n" if self._rows else self._head
        self._stream.write(f'{start}]{explained}, "exitStatus": {int(status)}}}\n')

    def _object(self, message: Message, query_key: str | None) -> str:
        found: dict[str, object] = dict(row_object(message, self._body))
        if self._keyed:
            found[_QUERY_KEY] = query_key
        return to_json(found)

    def _add_text(self, message: Message, query_key: str | None) -> None:
        if self._keyed and query_key != self._key:
            self._stream.write(f"{escape_text(query_key or '')}:\n")
            self._key = query_key
        self._stream.write(self._text.lines(message))

    def _add_cells(self, message: Message, query_key: str | None) -> None:
        keyed = [_QUERY_KEY] if self._keyed else []
        if not self._rows:
            self._csv.writerow(["type", *(name for _, name in columns_of(Message)), *keyed])
        cells: list[object] = [*row_object(message, self._body).values()]
        self._csv.writerow([_cell(value) for value in ([*cells, query_key] if keyed else cells)])


def _cell(value: object) -> object:
    if isinstance(value, str):
        return escape_controls(value)
    return to_json(value) if isinstance(value, list | dict) else value
