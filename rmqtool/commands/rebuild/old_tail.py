"""Old records after the end of a log: a rebuild of the files alone takes them for new, a broker does not.

Recovery cuts a log by moving a position, and the bytes after it stay. What makes them known, verify knows;
it is asked only where something is wrong in the log's last files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqtool.findings import Severity
from rmqtool.findings.commitlog import CL_PHY_MISMATCH, CL_TAIL_DIRTY
from rmqtool.findings.records import CL_QOFF_DUP, CL_QOFF_RANGE, CL_QOFF_RESET
from rmqtool.progress import NullProgress

if TYPE_CHECKING:
    from rmqtool.engine import Engine
    from rmqtool.findings import FindingLog
    from rmqtool.reput.pipeline import ReputPlan, ReputResult
    from rmqtool.scan.log_edge import LogEdge

_FILES = 2
_SIGNS = (CL_QOFF_DUP, CL_QOFF_RANGE, CL_QOFF_RESET, CL_PHY_MISMATCH)


def tell_old_tail(
    findings: FindingLog, plan: ReputPlan, result: ReputResult, engine: Engine, edge: LogEdge
) -> None:
    """Say that the last records are old ones, in the place of what they make look wrong; or say nothing.

    Args:
        findings: about the whole log; changed in place.
        plan: what was made.
        result: how that went.
        engine: reads the last files again, if need be.
        edge: what is known of the log as a whole.

    Raises:
        RmqtoolError: the engine or the scratch files failed.
    """
    segments = [one for one in plan.log if one.start < result.chain.end][-_FILES:]
    signs = [one for one in findings if one.code in _SIGNS]
    if not segments or not any((one.physical_offset or 0) >= segments[0].start for one in signs):
        return
    # Verify's checks of a log are not what every rebuild needs.
    from rmqtool.check.log.checks import LogCheck, check_log

    check = LogCheck(
        log=replace(plan.log, segments=tuple(segments)),
        policy=replace(plan.policy, index_enabled=False),
        staging=plan.staging,
        page_writer=edge.page_writer,
    )
    found = check_log(check, engine, NullProgress())
    start = found.log_end
    if found.stale_stop == start:
        return
    for one in signs:
        if (one.physical_offset or 0) >= start and one.severity is Severity.ERROR:
            findings.exchange(one, replace(one, severity_override=Severity.WARNING))
    tail = next(one for one in found.findings if one.code is CL_TAIL_DIRTY and one.physical_offset == start)
    message = f"{tail.message}; the result holds them, too: --until-offset {start} leaves them out"
    findings.add(replace(tail, message=message))
