"""On a damaged log the rebuild gives what a running master's reput gives: its store classes are the judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rmqtool.errors import ExitStatus
from tests.broker import jvm, running_master
from tests.broker.ahead import begun
from tests.broker.compare import compare_derived
from tests.broker.damage_cases import CASES, RANDOM, Case
from tests.broker.log_damage import LogCopy
from tests.broker.stores import fixture_store
from tests.commands.rebuilding import rebuild_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from rmqtool.commands.rebuild.report import RebuildReport
    from tests.broker.damage_cases import Ranges

pytestmark = pytest.mark.broker

SECONDS_UNTIL_IT_HANGS = 15

Trial = tuple[jvm.Version, Case]


@dataclass(frozen=True)
class Verdict:
    """What came of one damaged log.

    Attributes:
        differences: Between the broker's files and ours.
        report: Of our rebuild.
        expected_skips: Ranges that it must name, if they are known.
        last_segment: Physical offset of the fixture's last segment; behind it lies what the judge needs.
        hung: Whether the broker had to be killed.
    """

    differences: list[str]
    report: RebuildReport
    expected_skips: Ranges
    last_segment: int
    hung: bool

    @property
    def skips(self) -> list[tuple[int, int]]:
        """The ranges that the report names before the fixture's last segment."""
        ranges = [(part.skip.place, part.skip.length) for part in self.report.skipped]
        return [(place, length) for place, length in ranges if place < self.last_segment]


def judge(trial: Trial, folder: Path) -> Verdict:
    """Damage a log, rebuild it, let the broker do the same."""
    version, case = trial
    store = fixture_store(f"{case.fixture}-{version}")
    root = store.copy_log_to(folder / "store")
    log = LogCopy(root)
    expected_skips = case.damage(log)
    running_master.extend_log(root, version)
    report = rebuild_store(root, store.conf, folder / "out")
    hung = False
    try:
        running_master.rebuild(
            version, root, store.conf, timeout=SECONDS_UNTIL_IT_HANGS if case.waits else 60
        )
    except jvm.BrokerFailure as failure:
        if "still ran" not in str(failure) or not case.waits:
            raise
        hung = True
    differences = compare_derived(root, folder / "out")
    return Verdict(differences, report, expected_skips, max(log.segments), hung)


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Trial, Future[Verdict]]]:
    with begun(request, "trial", tmp_path_factory.mktemp("damage"), judge) as running:
        yield running


def trials(cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    each = [(version, case) for version in jvm.VERSIONS for case in cases]
    return pytest.mark.parametrize(
        "trial", each, ids=lambda trial: f"{trial[1].name} {trial[0]}".replace(" ", "-")
    )


@trials(CASES)
def test_as_a_running_master(trial: Trial, verdicts: dict[Trial, Future[Verdict]]) -> None:
    """The same bytes, and what was left out is said."""
    version, case = trial
    verdict = verdicts[trial].result()
    assert verdict.differences == []
    assert case.codes <= verdict.report.findings.counts.keys()
    if case.codes:
        assert verdict.report.exit_status() == ExitStatus.LOG_DAMAGED
    if verdict.expected_skips is not None:
        assert verdict.skips == verdict.expected_skips
    assert verdict.hung == (case.waits and version == "4.9.8")


@trials(RANDOM)
def test_random_bits(trial: Trial, verdicts: dict[Trial, Future[Verdict]]) -> None:
    """Wherever bits flip, the bytes are the broker's."""
    assert verdicts[trial].result().differences == []
