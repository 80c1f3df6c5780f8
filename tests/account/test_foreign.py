"""Files of another broker in a log: their records are whole, and none of this log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.findings import codes
from rmqtool.outcomes import Action, best
from tests.salvage.campaign import records_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_PAIRS = [
    ("plain-5.3.3", "batch-5.3.3"),
    ("plain-4.9.8", "crash-4.9.8"),
    ("ext-5.4.0", "plain-5.4.0"),
    ("segments-5.5.1", "indexfull-5.5.1"),
    ("crash-5.3.3", "plain-5.3.3"),
]


@pytest.mark.parametrize(("name", "other"), _PAIRS)
def test_the_messages_of_a_file_under_that_of_another_broker_are_lost(
    name: str, other: str, tmp_path: Path
) -> None:
    """At each place of the log: verify counts what the file had, and salvage is what keeps the rest."""
    shared = sorted(path.name for path in (fixture(other) / "commitlog").iterdir())[:-1]  # which is short
    places = sorted(records_of(fixture(name) / "commitlog"))
    for path in sorted((fixture(name) / "commitlog").iterdir())[:-1]:
        if path.name not in shared:
            continue
        root = tmp_path / path.name
        shutil.copytree(fixture(name), root)
        shutil.copyfile(fixture(other) / "commitlog" / path.name, root / "commitlog" / path.name)
        start = int(path.name)
        was = [place for place in places if start <= place < start + path.stat().st_size]
        with rmqtool.open(root) as store:
            report = store.verify(jobs=1)
        assert [finding.file for finding in report.findings if finding.code is codes.CL_FOREIGN] == [
            f"commitlog/{path.name}"
        ]
        assert report.log_losses is not None
        assert report.log_losses.messages == len(was)
        chosen = best(report.outcomes)
        assert chosen is not None
        assert (chosen.action, chosen.lost, chosen.placeholders) == (Action.SALVAGE, len(was), len(was))


@pytest.mark.parametrize("what", ["consumequeue", "consumequeue/TopicTest", "consumequeue/TopicTest/0"])
def test_queues_of_another_broker_make_no_file_of_the_log_foreign(what: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fixture("plain-5.3.3"), root)
    shutil.rmtree(root / what)
    shutil.copytree(fixture("crash-5.3.3") / what, root / what)
    with rmqtool.open(root) as store:
        report = store.verify(jobs=1)
    assert codes.CL_FOREIGN.code not in report.findings.counts
    assert report.log_losses is None or report.log_losses.messages == 0
