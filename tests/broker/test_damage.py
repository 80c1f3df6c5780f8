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
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqtool.commands.rebuild.report import RebuildReport
    from tests.broker.damage_cases import Ranges

pytestmark = pytest.mark.broker

Trial = tuple[jvm.Version, Case]


@dataclass(frozen=True)
class Verdict:
    """What came of one damaged log.

    Attributes:
        differences: Between the broker's files and ours.
        report: Of our rebuild.
        expected_skips: Ranges that it must name, if they are known.
        last_segment: Physical offset of the fixture's last segment; after it lies what the judge needs.
        hung: Whether the broker never came to the log's end.
    """

    differences: list[str]
    report: RebuildReport
    expected_skips: Ranges
    last_segment: int
    hung: bool

    @property
    def skips(self) -> list[tuple[int, int]]:
        """The ranges that the report names before the fixture's last segment."""
        ranges = [(part.skip.log_offset, part.skip.length) for part in self.report.skipped]
        return [(place, length) for place, length in ranges if place < self.last_segment]


@dataclass(frozen=True)
class Damaged:
    """A damaged log, what we rebuilt of it, and what a `Verdict` says of both."""

    store: jvm.Found
    out: Path
    report: RebuildReport
    expected_skips: Ranges
    last_segment: int


def prepare(trial: Trial, folder: Path) -> Damaged:
    """Damage a log and rebuild it."""
    version, case = trial
    store = fixture_store(f"{case.fixture}-{version}")
    root = store.copy_log_to(folder / "store")
    log = LogCopy(root)
    expected_skips = case.damage(log)
    running_master.extend_log(root, version)
    report = rebuild_store(root, store.conf, folder / "out")
    return Damaged(jvm.Found(root, store.conf), folder / "out", report, expected_skips, max(log.segments))


def judge(trials: list[Trial], folder: Path) -> dict[Trial, Verdict]:
    """Let brokers of one version do the same."""
    damaged = [prepare(trial, folder / str(number)) for number, trial in enumerate(trials)]
    (version,) = {version for version, _ in trials}
    settled = running_master.rebuild(version, [one.store for one in damaged])
    return {
        trial: Verdict(
            compare_derived(one.store.root, one.out),
            one.report,
            one.expected_skips,
            one.last_segment,
            hung=not whole,
        )
        for trial, one, whole in zip(trials, damaged, settled, strict=True)
    }


@pytest.fixture(scope="module")
def verdict_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Trial], Verdict]]:
    folder = tmp_path_factory.mktemp("damage")
    with begun(request, "trial", folder, group=lambda trial: trial[0], run=judge) as running:
        yield running


def trials(cases: tuple[Case, ...]) -> pytest.MarkDecorator:
    each = [(version, case) for version in running_master.VERSIONS for case in cases]
    return pytest.mark.parametrize(
        "trial", each, ids=lambda trial: f"{trial[1].name} {trial[0]}".replace(" ", "-")
    )


@trials(CASES)
def test_as_a_running_master(trial: Trial, verdict_of: Callable[[Trial], Verdict]) -> None:
    """The same bytes, and what was left out is said."""
    _, case = trial
    verdict = verdict_of(trial)
    assert verdict.differences == []
    assert case.codes <= verdict.report.findings.counts.keys()
    if case.codes:
        assert verdict.report.exit_status() == ExitStatus.LOG_DAMAGED
    if verdict.expected_skips is not None:
        assert verdict.skips == verdict.expected_skips
    assert verdict.hung == case.waits


@trials(RANDOM)
def test_random_bits(trial: Trial, verdict_of: Callable[[Trial], Verdict]) -> None:
    """Wherever bits flip, the bytes are the broker's."""
    assert verdict_of(trial).differences == []
