"""What a rebuild did: the report, the exit status, and how to install the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.dispatch.tag_evidence import TagRule
    from rmqtool.findings import FindingLog
    from rmqtool.reput.damage import SkippedRange
    from rmqtool.store import Setting

_INSTALL = (
    "To install: stop the broker and remove abort; move the store's {names} away and put the ones in {out}"
    " in their place; keep commitlog/, config/ and checkpoint. Install both parts of one rebuild and put"
    " nothing else beside them: brokers of 5.0.0 to 5.3.1 do not complete a consume queue that ends before"
    " the log does, 5.3.2 and later lose a record doing so, and 5.4.0 and later look at the newest"
    " commitLogRecoverMaxNum (10) files of the log only: do not delete {names} for a start to make them anew,"
    " as all before those files would get no unit and no index entry. A start that still finds abort deletes"
    " index files that are newer than the checkpoint."
)
_PARTIAL = "This result is partial: a broker must not start on it."


@dataclass(frozen=True, slots=True)
class RangeCount:
    """Damaged ranges that are only counted.

    Attributes:
        ranges: how many.
        bytes: their size.
    """

    ranges: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordCount:
    """Records of the log.

    Attributes:
        records: how many.
        bytes: their size.
    """

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The outcome of one rebuild.

    Attributes:
        store: path of the evidence.
        out: path of the result; None if none was written.
        mode: ``broker``: what a running master's reput builds.
        engine: ``local`` or ``spark``.
        partial: whether the user left something out.
        settings: in effect, by name.
        tag_items: which messages have an index entry for their tags, and why; None without an index.
        records: records dispatched.
        bytes: bytes of the log up to the last dispatched record.
        units: units written, pre-blank ones not counted.
        index_entries: index entries written.
        queues: queues written.
        files: files written, by directory.
        skipped: damaged ranges that were not dispatched.
        more_skipped: those of them that were only counted.
        skipped_units: units that the append rule skipped.
        salvage_would_add: true records in the ranges.
        findings: what is wrong with the log.
        compared: whether the present files were compared.
        differences: first difference of every file that differs.
        seconds: wall time of each stage.
    """

    schema: ClassVar = "rmqtool.rebuild/1"
    store: str
    out: str | None
    mode: str
    engine: str
    partial: bool
    settings: Mapping[str, Setting]
    tag_items: TagRule | None
    records: int
    bytes: int
    units: int
    index_entries: int
    queues: int
    files: Mapping[str, int]
    skipped: tuple[SkippedRange, ...]
    more_skipped: RangeCount
    skipped_units: int
    salvage_would_add: RecordCount
    findings: FindingLog
    compared: bool
    differences: tuple[FileDifference, ...]
    seconds: Mapping[str, float]

    @property
    def install_hint(self) -> str:
        """Return the paragraph that says how to put the result in place; empty if there is none."""
        if self.out is None:
            return ""
        if self.partial:
            return _PARTIAL
        names = " and ".join(f"{name}/" for name in sorted(self.files) if self.files[name])
        return _INSTALL.format(names=names or "derived directories", out=self.out)

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 for a damaged log, 1 for files that differ, else 0."""
        status = self.findings.exit_status(FailOn(fail_on))
        if status == ExitStatus.CLEAN and self.differences and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status
