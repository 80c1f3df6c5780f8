"""What a rebuild did: the JSON report, the exit status, and how to install the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn

if TYPE_CHECKING:
    from rmqtool.commands.rebuild.compare import FileDifference
    from rmqtool.dispatch.tag_evidence import TagRule
    from rmqtool.findings import FindingLog
    from rmqtool.reput.damage import SkippedRange
    from rmqtool.reput.pipeline import ReputResult

SCHEMA = "rmqtool.rebuild/1"
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


@dataclass
class RebuildReport:
    """The outcome of one rebuild.

    Attributes:
        store: path of the evidence.
        out: path of the result; None if none was written.
        engine: ``local`` or ``spark``.
        partial: whether the user left something out.
        settings: ``{NAME: {"value", "origin"}}``.
        result: counts and times.
        bytes_read: bytes of the log up to the last dispatched record.
        skipped: damaged ranges that were not dispatched.
        findings: what is wrong with the log.
        tags: which messages have an index entry for their tags, and why; None without an index.
        compared: whether the present files were compared.
        differences: first difference of every file that differs.
        mode: ``broker``: what a running master's reput builds.
    """

    store: str
    out: str | None
    engine: str
    partial: bool
    settings: dict[str, Any]
    result: ReputResult
    bytes_read: int
    skipped: list[SkippedRange]
    findings: FindingLog
    tags: TagRule | None
    compared: bool = False
    differences: list[FileDifference] = field(default_factory=list)
    mode: str = "broker"

    @property
    def seconds(self) -> dict[str, float]:
        """Return the wall time of each stage; can be added to."""
        return self.result.seconds

    @property
    def install_hint(self) -> str:
        """Return the paragraph that says how to put the result in place; empty if there is none."""
        if self.out is None:
            return ""
        if self.partial:
            return _PARTIAL
        names = " and ".join(f"{name}/" for name in sorted(self.result.files) if self.result.files[name])
        return _INSTALL.format(names=names or "derived directories", out=self.out)

    def exit_status(self, fail_on: FailOn | str = FailOn.ERROR) -> ExitStatus:
        """Return 5 for a damaged log, 1 for files that differ, else 0."""
        status = self.findings.exit_status(FailOn(fail_on))
        if status == ExitStatus.CLEAN and self.differences and FailOn(fail_on) is not FailOn.NEVER:
            return ExitStatus.NEGATIVE
        return status

    def to_json(self) -> dict[str, Any]:
        """Return the report object, schema ``rmqtool.rebuild/1``."""
        return {
            "schema": SCHEMA,
            "store": self.store,
            "out": self.out,
            "mode": self.mode,
            "engine": self.engine,
            "partial": self.partial,
            "settings": self.settings,
            "tagItems": None if self.tags is None else self.tags.to_json(),
            "records": self.result.messages,
            "bytes": self.bytes_read,
            "units": self.result.units,
            "indexEntries": self.result.entries,
            "queues": self.result.queues,
            "files": dict(self.result.files),
            "skipped": [self._skipped(part) for part in self.skipped],
            "moreSkipped": {
                "ranges": self.result.chain.more_skips,
                "bytes": self.result.chain.more_skipped_bytes,
            },
            "skippedUnits": sum(self.result.skipped_units.values()),
            "salvageWouldAdd": {
                "records": sum(part.records for part in self.skipped),
                "bytes": sum(part.record_bytes for part in self.skipped),
            },
            "findings": [finding.to_json() for finding in self.findings],
            "counts": self.findings.counts,
            "compared": self.compared,
            "differences": [difference.to_json() for difference in self.differences],
            "seconds": self.seconds,
            "exitStatus": int(self.exit_status()),
        }

    @staticmethod
    def _skipped(part: SkippedRange) -> dict[str, Any]:
        skip = part.skip
        return {"physicalOffset": skip.log_offset, "length": skip.length, "reason": part.reason}
