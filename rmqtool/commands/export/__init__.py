"""``export``: the messages of a log as files of columns; here are its request and report.

``run`` cuts logs into tasks, does the work on one, and joins the results. Each task walks its own pieces of
the log, and the chain of records decides which of them count: see ``rmqtool.scan.log_pass``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rmqtool import options
from rmqtool.columns import COLUMNS, ColumnChoice, ColumnFile, FileForm, FileFormat, Partition
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn, FindingLog
from rmqtool.projection import TEXT_BODIES, BodyMode, shared_fields
from rmqtool.rows.messages import MessageFilter

if TYPE_CHECKING:
    from rmqtool.engine import Engine, EngineOptions
    from rmqtool.scan.record_walk import LogExtent
    from rmqtool.store import Store
    from rmqtool.store.results import Target

REPORT_NAME = "_export.json"
"""Readers of a folder of files skip a name with this first character."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A store that was named and is not exported.

    Attributes:
        store: its path, as it was given.
        reason: why not, one sentence.
    """

    store: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ExportedMessages:
    """Messages to export, and their form.

    Attributes:
        messages: the filter.
        from_offset: physical offset.
        to_offset: physical offset.
        decompress: whether bodies are unpacked.
        body: how ndjson and csv have bodies.
    """

    messages: MessageFilter = field(default_factory=MessageFilter, metadata=options.GROUP)
    from_offset: int | None = options.from_offset()
    to_offset: int | None = options.to_offset()
    decompress: bool = options.flag(options.DECOMPRESS_HELP)
    body: BodyMode = options.word(
        TEXT_BODIES, BodyMode.TEXT, "Bodies in ndjson and csv; text: base64 if a body is not text."
    )


@dataclass(frozen=True, kw_only=True)
class ExportRequest(ExportedMessages):
    """A request to export messages; ``left_out`` are stores that could not be opened."""

    stores: tuple[Store, ...]
    out: Target
    engine: EngineOptions | Engine
    format: FileFormat
    columns: tuple[str, ...] = tuple(COLUMNS)
    left_out: tuple[LeftOut, ...] = ()
    partition: Partition | None = options.word(
        Partition,
        None,
        "A folder for each topic, or for each UTC day of the store time.",
        name="partition_by",
    )
    max_findings: int = options.max_findings(10, "kept", least=0)

    @property
    def asked(self) -> ExportedMessages:
        """Return the messages."""
        return ExportedMessages(**shared_fields(self, ExportedMessages))

    @property
    def form(self) -> FileForm:
        """Return the form of the files."""
        return FileForm(self.format, self.body, self.partition)

    @property
    def choice(self) -> ColumnChoice:
        """Return the columns."""
        return ColumnChoice(self.columns, self.decompress)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """The outcome of one export.

    Attributes:
        stores: Paths of the evidence.
        left_out: Stores that were named and could not be read; only of several.
        out: Path of the result.
        format: Format of the files.
        partition: The field that divides them into folders; None for none.
        columns: Their names, in order.
        asked: The requested messages.
        logs: Extent of each store's log at the beginning.
        engine: ``local`` or ``spark``.
        messages: Number of exported messages.
        log_bytes: Bytes of log that were read.
        files: All files.
        findings: Damage that was met; of all stores.
        seconds: Duration.
    """

    schema: ClassVar = "rmqtool.export/1"
    stores: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    out: str
    format: str
    partition: str | None
    columns: tuple[str, ...]
    asked: ExportedMessages
    logs: tuple[LogExtent, ...]
    engine: str
    messages: int
    log_bytes: int
    files: tuple[ColumnFile, ...]
    findings: FindingLog
    seconds: float

    def exit_status(self, fail_on: FailOn = FailOn.ERROR) -> ExitStatus:
        """Return the worst status of the findings, NEGATIVE without messages, FAILED for stores left out."""
        status = self.findings.exit_status(fail_on)
        if self.left_out:
            status = max(status, ExitStatus.FAILED)
        is_missed = not self.messages and fail_on is not FailOn.NEVER
        return max(status, ExitStatus.NEGATIVE) if is_missed else status
