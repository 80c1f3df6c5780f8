"""How often a command walks a damaged log: one account and one prediction serve all that a run says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.account.log_losses import account_of
from rmqtool.scan.walk import SegmentWalk
from tests.runs import run_line
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqtool.kernels.rows import MessageBatch

_RECORDS = 160


@pytest.fixture
def holed(tmp_path: Path) -> Path:
    """A store that a kill left, with 900 bytes of zeros in the midst of its log."""
    root = tmp_path / "holed"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "abort").touch()
    _zero(root)
    return root


def _zero(root: Path) -> None:
    with (root / "commitlog" / f"{40960:020d}").open("r+b") as file:
        file.seek(3000)
        file.write(bytes(900))


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records of each batch that a walk has yielded."""
    counts: list[int] = []
    batches = SegmentWalk.batches

    def counted(self: SegmentWalk, start: int, stop: int, kept: int = 0) -> Iterator[MessageBatch]:
        for batch in batches(self, start, stop, kept):
            counts.append(len(batch.rows))
            yield batch

    monkeypatch.setattr(SegmentWalk, "batches", counted)
    return counts


@pytest.mark.parametrize(
    "words", [["verify"], ["verify", "--predict-recovery"], ["report", "-o"]], ids=" ".join
)
def test_a_damaged_log_is_walked_little_more_than_three_times(
    holed: Path,
    words: list[str],
    walked: list[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The check and the evidence read all of it, the start of each release what it would read."""
    page = [tmp_path / "page.html"] if words[-1] == "-o" else []
    run_line(capsys, *words, *page, holed)
    assert _RECORDS <= sum(walked) <= 3.1 * _RECORDS


def test_the_evidence_is_read_on_the_engine_of_the_run(holed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of its own would read a log on this machine that the run reads on a cluster."""

    def refuse(*_words: object) -> None:
        raise AssertionError("an engine was opened beside that of the run")

    with rmqtool.open_engine() as engine, rmqtool.open(holed) as store:
        monkeypatch.setattr("rmqtool.genuine.reading.LocalEngine", refuse)
        losses = store.verify(engine=engine).log_losses
        assert losses is not None
        assert losses.messages > 0
        assert account_of(store.files).losses() is losses
        cut = store.predict_recovery().cut
        assert cut is not None
        assert 40960 < cut.physical_offset < 40960 + 3900


def test_a_start_is_predicted_once(holed: Path, walked: list[int]) -> None:
    """All that a run says of a start rests on one prediction."""
    with rmqtool.open(holed) as store:
        prediction = store.predict_recovery()
        walked.clear()
        assert store.predict_recovery() is prediction
        assert not walked
        assert store.predict_recovery("4.9.8") is not prediction


def test_each_verification_reads_anew(holed: Path) -> None:
    """A store that is damaged between two verifications has the losses of the second."""
    shutil.copy(fixture("plain-5.3.3") / "commitlog" / f"{40960:020d}", holed / "commitlog")
    with rmqtool.open(holed) as store:
        assert store.verify().log_losses is None
        assert not account_of(store.files).losses().messages
        _zero(holed)
        losses = store.verify().log_losses
        assert losses is not None
        assert losses.messages > 0
