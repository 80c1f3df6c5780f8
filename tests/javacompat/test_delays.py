from __future__ import annotations

import pytest

from rmqtool.javacompat import read_delay_levels

DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def test_default_levels_are_deliver_times_of_the_broker() -> None:
    seconds = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
    delay_ms = {level: 1000 * delay for level, delay in enumerate(seconds, start=1)}
    assert read_delay_levels(DEFAULT).delay_ms == delay_ms
    assert read_delay_levels(DEFAULT) == (delay_ms, 18, True)


@pytest.mark.parametrize(
    ("text", "delay_ms", "max_level", "valid"),
    [
        ("2d", {1: 172_800_000}, 1, True),
        ("1s  ", {1: 1000}, 1, True),
        ("-1s +2s", {1: -1000, 2: 2000}, 2, True),
        (" ", {}, 0, True),
        ("", {}, 0, False),
        (" 1s", {}, 0, False),
        ("1s  2s", {1: 1000}, 1, False),
        ("1s 2x 3s", {1: 1000}, 2, False),
        ("1s s 3s", {1: 1000}, 2, False),
        ("1s 2S", {1: 1000}, 2, False),
        ("9223372036854775807s", {1: -1000}, 1, True),
        ("9223372036854775808s", {}, 1, False),
    ],
)
def test_reading_ends_at_the_first_malformed_level(
    text: str, delay_ms: dict[int, int], max_level: int, *, valid: bool
) -> None:
    assert read_delay_levels(text) == (delay_ms, max_level, valid)
