"""Reports made by hand, as large and as hostile as they can be."""

from __future__ import annotations

from itertools import pairwise

from rmqtool.account import LogLosses
from rmqtool.check import Examined, VerifyReport
from rmqtool.check.census import Census, Period, Series, TopicFigures
from rmqtool.check.picture import ClockStep, Content, LogFile, LogPicture, OffsetGap, Stretch
from rmqtool.commands.report import (
    Backlog,
    FileDigest,
    Provenance,
    StoreReport,
    TopicLoss,
)
from rmqtool.findings import CATALOG, Finding, FindingLog, codes
from rmqtool.recovery import Cut, Loss, Prediction, Recovery
from rmqtool.releases import NEWEST
from rmqtool.rows import Checkpoint
from rmqtool.store.broker_conf import Origin, Setting

START_MS = 1_795_231_720_000
FILE_BYTES = 1 << 30
HOSTILE = (
    "<script>alert(1)</script>'\"><img src=x onerror=alert(2)>\x1b[2J\x00\u202egpj.exe\u2066&amp;{{7*7}}"
)
"""What a name may hold that was never meant as one."""


def name(number: int) -> str:
    """Return a long hostile name, another one for each number."""
    return f"{number}{HOSTILE}{'<&>' * 20}"


def prediction(topics: int) -> Prediction:
    """Return a start that loses messages of so many topics."""
    return Prediction(
        store=f"/data/{HOSTILE}",
        release=NEWEST,
        recovery=Recovery("abnormal", f"commitlog/{HOSTILE}", 0, f"because {HOSTILE}"),
        cut=Cut(3 * FILE_BYTES + 12345, f"commitlog/{HOSTILE}", 12345, "CL-CRC", f"found {HOSTILE}"),
        lost=tuple(Loss(name(number), number + 1, 100 * number + 1) for number in range(topics)),
        deleted_files=tuple(f"commitlog/{number}{HOSTILE}" for number in range(topics)),
        hazards=(f"beware of {HOSTILE}",),
    )


def picture(topics: int, files: int) -> LogPicture:
    """Return a log of so many topics and files, with damage in every fifth."""
    period = Period(START_MS, 60_000, 72)
    figures = tuple(
        TopicFigures(
            name(number), topics - number, 10**9 - number, START_MS, 0, START_MS + 4_000_000, 7, 99, 7
        )
        for number in range(topics)
    )
    series = tuple(
        Series(topic, tuple(range(line, 72 + line)), tuple(1000 * one for one in range(72)))
        for line, topic in enumerate([*(one.topic for one in figures[:7]), None])
    )
    log = []
    for number in range(files):
        start = number * FILE_BYTES
        cuts = range(start, start + FILE_BYTES + 1, FILE_BYTES // 64)
        kinds = (Content.RECORDS, Content.DAMAGED) if number % 5 == 0 else (Content.RECORDS, Content.FILE_END)
        log.append(
            LogFile(
                f"commitlog/{number}{HOSTILE}",
                start,
                start + FILE_BYTES,
                tuple(
                    Stretch(kinds[at % 2], low, high, 100, START_MS, START_MS + 1)
                    for at, (low, high) in enumerate(pairwise(cuts))
                ),
            )
        )
    census = Census(
        period=period,
        topics=figures,
        series=series,
        outside=3,
    )
    return LogPicture(
        files=tuple(log),
        end=files * FILE_BYTES,
        census=census,
        clock_steps=tuple(ClockStep(at, START_MS + 50, START_MS) for at in range(50)),
        more_clock_steps=7,
        offset_gaps=tuple(OffsetGap(name(number), 0, 5, number + 1, number) for number in range(topics)),
        more_offset_gaps=9,
    )


def findings(each: int) -> FindingLog:
    """Return findings of every code, with hostile names wherever there is room for one."""
    log = FindingLog(each)
    for entry in CATALOG.values():
        if entry is codes.IO_DENIED:  # of which the owner of the file is looked for
            continue
        for number in range(2 * each):
            log.add(
                Finding(
                    code=entry,
                    file=f"commitlog/{HOSTILE}",
                    position=number,
                    topic=name(number),
                    queue_id=number,
                    physical_offset=number * 1000,
                    message=f"{HOSTILE} says {name(number)}" * 4,
                )
            )
    return log


def report(topics: int = 3, files: int = 4, each: int = 2) -> StoreReport:
    """Return a report in which everything that comes from a store is hostile."""
    verification = VerifyReport(
        store=f"/data/{HOSTILE}",
        level=3,
        findings=findings(each),
        examined=Examined(files, 10**9, 10**12, 10**5, 10**9, 100, 10**9),
        seconds={"log": 1.0},
        picture=picture(topics, files),
        log_losses=LogLosses(9, 9, 0, 0, 0, 0, None, ()),
    )
    setting = Setting("storePathCommitLog", HOSTILE, Origin.GIVEN, note=HOSTILE, doubt=HOSTILE)
    return StoreReport(
        store=f"/data/{HOSTILE}",
        provenance=Provenance(
            "1.2.3",
            f"rmqtool report '{HOSTILE}'",
            START_MS,
            {f"setting{number}": setting for number in range(80)},
            tuple(FileDigest(f"config/{number}{HOSTILE}", 100, "ab" * 32) for number in range(500)),
        ),
        verification=verification,
        predictions=(prediction(topics),),
        losses=tuple(TopicLoss(name(number), number, 10 * number, 3) for number in range(topics)),
        backlogs=tuple(
            Backlog(f"group {name(number)}", name(number), 8, topics - number, 1, START_MS)
            for number in range(topics)
        ),
        cut_ms=START_MS + 2_000_000,
        checkpoint=Checkpoint(START_MS, START_MS, 0, 0, 0, 0),
        abort=True,
    )
