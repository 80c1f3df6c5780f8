"""A report in the light of what the user asked for: what fails, what is known, what a broker would do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rmqtool.commands.verify.roots import Roots, roots_of
from rmqtool.errors import ExitStatus
from rmqtool.findings import FailOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqtool.check.model import VerifyReport
    from rmqtool.commands.verify.baseline import Comparison
    from rmqtool.findings import Finding
    from rmqtool.recovery.model import Prediction


@dataclass
class Verdict:
    """Verdict on one store.

    Attributes:
        report: what was found.
        fail_on: which findings fail.
        comparison: the findings told apart by ``--baseline``, if one was given.
        predictions: what brokers would do with the store, if that was asked.
        part: what of the store was looked at, relative to it; None for all of it.
        setting_arguments: arguments of the command line that give settings, for the next command.
    """

    report: VerifyReport
    fail_on: FailOn = FailOn.ERROR
    comparison: Comparison | None = None
    predictions: tuple[Prediction, ...] = ()
    part: str | None = None
    setting_arguments: tuple[str, ...] = ()

    @cached_property
    def roots(self) -> Roots:
        """Return which findings follow from others."""
        return roots_of(self.report.findings)

    @property
    def status(self) -> ExitStatus:
        """Return the exit status: known findings do not fail, whatever the report's own result is.

        What was interrupted has no other than that.
        """
        if self.report.interrupted is not None:
            return ExitStatus.INTERRUPTED
        findings = self.report.findings if self.comparison is None else self.comparison.new
        return findings.exit_status(self.fail_on)

    def findings(self) -> Iterator[tuple[Finding, bool]]:
        """Yield the kept findings and whether the baseline knows them."""
        findings = list(self.report.findings)
        known = (False,) * len(findings) if self.comparison is None else self.comparison.known
        yield from zip(findings, known, strict=True)
