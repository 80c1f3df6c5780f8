"""Verdicts made by hand, for the tests of how they look."""

from __future__ import annotations

from rmqtool.check import Examined, VerifyReport
from rmqtool.commands.verify import Verdict
from rmqtool.findings import FailOn, Finding, FindingLog, codes

LOG_FILE = "commitlog/00000000000000000000"
HOSTILE = "[red]x\x1b[2J\u202e<&\ufffe\udc80|"

CRC = Finding(
    code=codes.CL_CRC,
    file=LOG_FILE,
    position=1234,
    length=200,
    topic="Orders",
    queue_id=1,
    queue_offset=7,
    physical_offset=1234,
    expected=1,
    observed=2,
    message=f"{LOG_FILE}: the body's CRC-32 differs",
)
MISSING = Finding(code=codes.CQ_MISSING_MSG, topic=HOSTILE, queue_id=0, queue_offset=3, message=HOSTILE)
ABORT = Finding(code=codes.ST_ABORT, file="abort")
TAIL = Finding(code=codes.CL_TAIL_ZERO, file=LOG_FILE, position=7000, length=1192)


def verdict(*findings: Finding, fail_on: FailOn = FailOn.ERROR, cap: int = 100) -> Verdict:
    """Return a verdict on a store with these findings."""
    log = FindingLog(cap)
    log.extend(findings)
    examined = Examined(2, 163, 16384, 4, 160, 1, 412)
    return Verdict(VerifyReport("/data/store", 3, log, examined, {"layout": 0.5, "log": 1.0}), fail_on)
