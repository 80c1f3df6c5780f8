"""What every command says of the framing of a log: code, place and length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqtool.commands.diff import StoreComparison
from rmqtool.commands.diff.run import diff_stores
from rmqtool.commands.dump import DumpRequest
from rmqtool.commands.dump import run as dump_run
from rmqtool.commands.info import summarise
from rmqtool.commands.query.scan import LogScan
from rmqtool.commands.topics import TopicsRequest, topics_of
from rmqtool.findings import Finding, Severity
from rmqtool.rows import Damage
from rmqtool.scan.classify import FoundEdge
from rmqtool.scan.records import Prefilter
from rmqtool.store import open_store
from tests.commands.rebuilding import Listener, rebuild_store
from tests.damage.running import ONE_THREAD, verified

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from rmqtool.store import Store

    Verdict = tuple[str, int | None, int]

FRAMING = frozenset(
    {
        "CL-BAD-MAGIC",
        "CL-BLANK-LEN",
        "CL-GAP",
        "CL-GHOST",
        "CL-HALF-RECORD",
        "CL-HOLE",
        "CL-HUGE-SIZE",
        "CL-NO-BLANK",
        "CL-NUMBER",
        "CL-PREALLOC",
        "CL-TAIL-DIRTY",
        "CL-TAIL-ZERO",
        "CL-TRANSIENT",
    }
)
"""Codes that speak of the bytes between records; the others speak of what a record says."""

_SPLIT_BYTES = 3000


def said_by_verify(root: Path) -> tuple[set[Verdict], set[Verdict]]:
    """Return what verify says, and what of it is an error."""
    findings = list(verified(root).findings)
    return _verdicts(findings), _verdicts(one for one in findings if one.severity.value == "error")


def said_by_dump(root: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> set[Verdict]:
    """Return what dump says, by rows or by the kernels."""
    with monkeypatch.context() as patch:
        if large:
            patch.setattr(dump_run, "LARGE_LOG_BYTES", 0)
        request = DumpRequest(lines="none" if large else None)
        rows = list(dump_run.dump_log(_store(root), request, Listener()))
    return _verdicts(row.finding() for row in rows if isinstance(row, Damage))


def said_by_query(root: Path, *, large: bool) -> set[Verdict]:
    """Return what ``query --scan`` says, in plain Python or by the kernels."""
    store, met = _store(root), list[Finding]()
    small = 0 if large else 1 << 62
    scan = LogScan(store.commitlog, Listener(), met.append, small, _SPLIT_BYTES, edge=FoundEdge.of(store))
    assert sum(1 for _ in scan.records(Prefilter(), lambda _: True)) >= 0
    return {(one.code.code, one.physical_offset, one.length or 0) for one in met if one.code.code in FRAMING}


def said_by_topics(root: Path) -> set[Verdict]:
    """Return what of what topics says is an error."""
    found = topics_of(TopicsRequest(_store(root), split_bytes=_SPLIT_BYTES), Listener()).findings
    return _verdicts(one for one in found if one.severity is Severity.ERROR)


def said_by_rebuild(root: Path) -> set[Verdict]:
    """Return what rebuild says."""
    conf = root / "broker.conf"
    report = rebuild_store(
        root, conf if conf.is_file() else None, None, engine=ONE_THREAD, dry_run=True, max_findings=100
    )
    return _verdicts(report.findings)


def said_by_info(root: Path) -> set[Verdict]:
    """Return what info says."""
    return _verdicts(summarise(_store(root), 100).findings)


def said_by_diff(sound: Path, root: Path) -> set[tuple[str, int | None]]:
    """Return codes and places of what diff says of the second of two stores."""
    differences = diff_stores(_store(sound), _store(root), StoreComparison(limit=1000))
    return {
        (one.code, one.physical_offset) for one in differences if one.code in FRAMING and one.damaged == "b"
    }


def _verdicts(findings: Iterable[Finding]) -> set[Verdict]:
    return {
        (one.code.code, one.physical_offset, one.length or 0) for one in findings if one.code.code in FRAMING
    }


def _store(root: Path) -> Store:
    conf = root / "broker.conf"
    return open_store(root, broker_conf=conf if conf.is_file() else None)
