"""What verify foretells of a start on a damaged store is what consumers of a real broker then have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.damaged_states import RELEASES, random_states
from tests.broker.ways_out import judged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.jvm import Version

pytestmark = pytest.mark.broker

_RANDOM = 12
"""Random damage of each release; ``outcome_campaign`` has as much as there is time for."""
_OF_A_PULL = ("served", "wrong", "unserved")


@pytest.mark.parametrize("version", RELEASES)
def test_starts_on_random_damage_deliver_as_foretold(version: Version, tmp_path: Path) -> None:
    first = 10_000 * RELEASES.index(version)
    states = random_states(range(first, first + _RANDOM), version)
    lines = list(judged([*states], version, tmp_path, actions=["start"]))
    assert len(lines) == _RANDOM
    differ = [
        f"{line.state.label}: {text}"
        for line in lines
        for text in line.differences
        if text.startswith(("starts", *_OF_A_PULL))
    ]
    assert differ == []
