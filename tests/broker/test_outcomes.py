"""What verify foretells of each action on a damaged store is what a real broker then has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.damaged_states import RELEASES, case_states, random_states
from tests.broker.ways_out import judged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.damaged_states import State
    from tests.broker.jvm import Version

pytestmark = pytest.mark.broker

_RANDOM = 8
"""Random damage of each release; ``outcome_campaign`` has as much as there is time for."""
_ACTIONS = ("start", "setting", "repair", "rebuild")
"""Those of a broker on this store; ``salvage`` makes another one: ``test_salvage``."""
_CASES = (
    "CL-CRC",
    "CL-PORT",
    "CL-HOLE",
    "CL-GAP",
    "CL-HALF-RECORD",
    "CL-STRAY",
    "CL-TOPIC-NAME",
    "CL-NO-CRC",
    "CQ-DANGLING",
    "CQ-FILE-NAME",
    "CQ-MISSING-MSG",
    "CQ-STALE-TAIL",
    "CQ-TYPE",
    "IX-GONE",
)
"""Damage of each kind; every release meets every fourth of their cases, with ``abort`` or without."""
_NO_WITNESS = "reused"
"""Numbers that were given before and of which nothing is left are known to the test alone."""
_OTHERWISE = {"random: 30006 @crash-5.5.1, no abort": "to the test, zeros for properties are whole"}
"""What is right in both, by words that differ."""


def _states(version: Version) -> list[State]:
    """Return cases that other releases do not meet, and random damage."""
    number = RELEASES.index(version)
    cases = [one for one in case_states(version) if one.code in _CASES and one.abort is not None]
    chosen = cases[number * 2 :: 2 * len(RELEASES)] + cases[number * 2 + 1 :: 4 * len(RELEASES)]
    return [*chosen, *random_states(range(10_000 * number, 10_000 * number + _RANDOM), version)]


@pytest.mark.parametrize("version", RELEASES)
def test_each_action_comes_out_as_foretold(version: Version, tmp_path: Path) -> None:
    states = _states(version)
    lines = list(judged(states, version, tmp_path, actions=_ACTIONS))
    differ = [
        f"{line.action}: {line.state.label}: {text}"
        for line in lines
        for text in line.differences
        if not text.startswith(_NO_WITNESS) and line.state.label not in _OTHERWISE
    ]
    assert differ == []
    assert {line.action for line in lines if line.result} >= {"start", "repair", "rebuild"}
    assert len(lines) > 2 * len(states)
