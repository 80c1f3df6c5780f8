"""A record that is there and not as stored: every command counts its message as damaged, none as lost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import rmqtool
from rmqtool.account import MessageStates
from rmqtool.account.lost import LostMessage, LostReason
from rmqtool.formats.message import decode_head
from tests.runs import run_line
from tests.salvage.campaign import records_of
from tests.store.fixture_stores import fixture

if TYPE_CHECKING:
    from pathlib import Path

_STORES = ["plain-4.9.8", "plain-5.3.3", "plain-5.5.1", "transaction-5.3.3", "v2-5.5.1", "lmq-5.3.3"]
_BODY_LENGTH_AT = 84
"""Of a record whose hosts are of IPv4; the body comes next."""


def _damage(root: Path, number: int) -> int:
    """Flip a bit in the body of a record of a copied store; return its place."""
    places = sorted(records_of(root / "commitlog"))
    place = places[number]
    file = max(path for path in (root / "commitlog").iterdir() if int(path.name) <= place)
    data, at = bytearray(file.read_bytes()), place - int(file.name)
    head = decode_head(bytes(data), at)
    assert head is not None
    assert head.body_length > 0
    data[at + _BODY_LENGTH_AT + 4] ^= 1
    file.write_bytes(data)
    return place


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, int]:
    """A store with one damaged body, and the place of its record."""
    root = tmp_path / "damaged"
    shutil.copytree(fixture("plain-5.3.3"), root)
    return root, _damage(root, 40)


@pytest.mark.parametrize("name", _STORES)
def test_the_account_counts_a_damaged_record_as_salvage_does(name: str, tmp_path: Path) -> None:
    """Over several stores: nothing is lost, one message is damaged, all others are there."""
    root = tmp_path / name
    shutil.copytree(fixture(name), root)
    records = len(records_of(root / "commitlog"))
    _damage(root, records // 2)
    with rmqtool.open(root) as store:
        losses = store.verify().log_losses
        assert losses is not None
        assert losses.messages == 0
        assert losses.states is not None
        states = losses.states
        assert (states.there, states.damaged, states.readable, states.gone) == (records - 1, 1, 1, 0)
        salvaged = store.plan_salvage(jobs=1)
    assert (sum(one.lost for one in salvaged.queues), sum(one.damaged for one in salvaged.queues)) == (0, 1)


def test_a_start_that_cuts_a_damaged_record_off_takes_it_out_of_the_damaged(tmp_path: Path) -> None:
    """Each message is in one state: cut off, then."""
    root = tmp_path / "killed"
    shutil.copytree(fixture("plain-5.3.3"), root)
    (root / "abort").touch()
    places = sorted(records_of(root / "commitlog"))
    _damage(root, len(places) - 10)
    with rmqtool.open(root) as store:
        found = store.verify().log_losses
        prediction = store.predict_recovery()
    assert found is not None
    assert found.states is not None
    assert (found.states.damaged, found.states.readable) == (1, 1)
    assert prediction.log_losses is not None
    states = prediction.log_losses.states
    assert states is not None
    assert (states.there, states.cut, states.damaged, states.readable) == (len(places) - 10, 10, 0, 0)
    assert sum(one.messages for one in prediction.lost) == 10


def test_lost_lists_a_damaged_record_once(damaged: tuple[Path, int]) -> None:
    """Its queue, keys and place are known, as it can be read."""
    root, place = damaged
    told: list[LostMessage] = []
    with rmqtool.open(root) as store:
        store.verify()
        prediction = store.predict_recovery(lost=told.append)
    assert [(one.reason, one.physical_offset, one.topic) for one in told] == [
        (LostReason.DAMAGED, place, "TopicTest")
    ]
    assert prediction.lost_messages is not None
    assert prediction.lost_messages.reasons == {"damaged": 1}


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_the_first_line_says_so(
    command: str, damaged: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is damaged and one message with it; there is something to repair, though no repair can."""
    root, _ = damaged
    run = run_line(capsys, command, root)
    line = run.out.splitlines()[0]
    assert "1 message is there but damaged" in line
    assert "commit log is damaged" in line
    assert "nothing to repair" not in run.out
    assert "lost" not in line
    assert run.status == 5


def test_data_and_page_have_the_same_number(
    damaged: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts read it in the states of the account."""
    root, _ = damaged
    data = json.loads(run_line(capsys, "verify", "--format", "json", root).out)
    assert data["logLosses"]["messages"] == 0
    assert data["logLosses"]["states"] == {
        "there": 162, "unconfirmed": 0, "cut": None, "damaged": 1, "gone": 0, "open": 0, "before": 0,
        "readable": 1,
    }  # fmt: skip
    page = tmp_path / "page.html"
    run_line(capsys, "report", "-o", page, root)
    assert "1 message is there but damaged" in page.read_text("utf-8")


def test_lost_are_those_that_are_gone_or_cannot_be_read() -> None:
    """Two of three damaged ones cannot be read."""
    states = MessageStates(there=9, unconfirmed=0, cut=None, damaged=3, gone=4, open=1, readable=1)
    assert states.lost == 7
    assert states.predicted(5, damaged=1, readable=1).lost == 7
