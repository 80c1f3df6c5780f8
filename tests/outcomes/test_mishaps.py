"""What befalls stores and their backups, and ``Next`` followed to its end as an operator pastes it."""

from __future__ import annotations

import re
import shlex
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.damaged_states import random_states
from tests.broker.stores import STORES
from tests.broker.whole_messages import whole_messages
from tests.runs import run_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.broker.damaged_states import State
    from tests.broker.jvm import Version
    from tests.broker.measured import Copy

    Message = tuple[str, int, int, int]

_MOST_STEPS = 5
_STATUSES = {0, 1, 5}
_EACH = 12
_SEEDS: dict[Version, int] = {"4.9.8": 3000, "5.3.3": 1000, "5.4.0": 5000, "5.5.1": 4000}
_STATES = [
    state
    for version, seed in _SEEDS.items()
    for state in random_states(range(seed, seed + _EACH), version, "mishap")
]
_BEFORE = re.compile(r"([0-9,]+) messages? before the log")
_FILLER = "rmqtool-filler"
_OP_OF_NONE = zlib.crc32(b"-1")
"""Body of what salvage puts in the place of a lost op message."""


@pytest.mark.full
@pytest.mark.parametrize("state", _STATES, ids=lambda state: state.label)
def test_next_ends_and_loses_no_more_than_it_says(
    state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = state.copy_to(tmp_path / "damaged")
    before = _messages(STORES / state.fixture)
    seen: list[str] = []
    root, may_be_lost = copy.root, 0
    while (document := _verified(root, copy, capsys))["next"] is not None:
        if not seen:
            may_be_lost = sum(each["lost"] for each in document["outcomes"] if each["recommended"])
            may_be_lost += sum(
                int(number.replace(",", "")) for number in _BEFORE.findall(document["verdict"])
            )
        assert document["next"] not in seen
        assert len(seen) < _MOST_STEPS
        seen.append(document["next"])
        words = shlex.split(document["next"])
        if words[0] == "cp":  # nothing helps more than a copy
            return
        root = _FOLLOWED[words[1]](root, words[1:], capsys)
    after = _messages(root)
    assert len(before - after) <= may_be_lost
    assert after <= before


def _verified(root: Path, copy: Copy, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document = run_line(capsys, "verify", root, "-c", copy.conf, "--format", "json").document
    return {"next": None, "outcomes": [], "verdict": "", **document}


def _messages(root: Path) -> set[Message]:
    """Return the messages of a log that brokers put into queues, but for those that salvage makes."""
    return {
        (message.topic, message.queue_id, message.queue_offset, message.body)
        for message in whole_messages(root)
        if message.is_dispatched
        and message.topic != _FILLER
        and message.body != _OP_OF_NONE
        and "RMQTOOL_LOST" not in message.properties
    }


def _repaired(root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> Path:
    assert run_line(capsys, *words).status in _STATUSES
    agreed = [word for word in words if word != "--plan"]
    assert run_line(capsys, *agreed, "--yes").status in _STATUSES
    return root


def _salvaged(_root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> Path:
    assert run_line(capsys, *words).status in _STATUSES
    return Path(words[words.index("--out") + 1])


def _rebuilt(root: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> Path:
    """Rebuild, and install the result as the command's text says."""
    assert run_line(capsys, *words, "--engine", "local").status in _STATUSES
    made = Path(words[words.index("--out") + 1])
    for name in ("consumequeue", "index"):
        if (made / name).exists():
            shutil.rmtree(root / name, ignore_errors=True)
            (made / name).rename(root / name)
    (root / "abort").unlink(missing_ok=True)
    return root


_FOLLOWED: dict[str, Callable[[Path, list[str], pytest.CaptureFixture[str]], Path]] = {
    "repair": _repaired,
    "rebuild": _rebuilt,
    "salvage": _salvaged,
}
